package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"ephor.invalid/ephor/internal/certificate"
)

// maxLegacy is the maximum number of single files that are read from a repository, and the maximum size of each.
const (
	maxLegacy      = 32
	maxLegacyBytes = 128 << 10
)

// legacyFiles returns the files of a repository without a trusted root, by usage. The usage is in the metadata of a file or, without
// metadata, follows from its name.
func legacyFiles(targets map[string]*metadata.TargetFiles) map[string]string {
	out := map[string]string{}
	for name, target := range targets {
		if usage := usageOf(name, target); usage != "" {
			out[name] = usage
		}
	}
	return out
}

func usageOf(name string, target *metadata.TargetFiles) string {
	if target.Custom != nil {
		var custom struct {
			Sigstore struct {
				Usage string `json:"usage"`
			} `json:"sigstore"`
		}
		if json.Unmarshal(*target.Custom, &custom) == nil && custom.Sigstore.Usage != "" {
			switch usage := strings.ToLower(custom.Sigstore.Usage); usage {
			case "fulcio", "rekor", "ctfe", "tsa":
				return usage
			}
			return ""
		}
	}
	for _, usage := range []string{"fulcio", "rekor", "ctfe", "tsa"} {
		if strings.HasPrefix(name, usage) && (strings.HasSuffix(name, ".pem") || strings.HasSuffix(name, ".pub")) && !strings.Contains(name, "/") {
			return usage
		}
	}
	return ""
}

// fromLegacy builds a trusted root from single files, whose usages are given.
func fromLegacy(files map[string][]byte, usages map[string]string) (*root.TrustedRoot, error) {
	var fulcio, tsa []*x509.Certificate
	logs := map[string]map[string]*root.TransparencyLog{"rekor": {}, "ctfe": {}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		usage := usages[name]
		for rest := files[name]; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if usage == "rekor" || usage == "ctfe" {
				log, err := transparencyLog(block.Bytes)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				logs[usage][hex.EncodeToString(log.ID)] = log
				continue
			}
			parsed, err := certificate.Parse(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if usage == "tsa" {
				tsa = append(tsa, parsed)
			} else {
				fulcio = append(fulcio, parsed)
			}
		}
	}
	if len(fulcio)+len(tsa)+len(logs["rekor"])+len(logs["ctfe"]) == 0 {
		return nil, errors.New("the repository contains neither trusted_root.json nor keys and certificates of Sigstore")
	}
	var authorities []root.CertificateAuthority
	roots, between, _ := split(fulcio)
	for _, r := range roots {
		authorities = append(authorities, &root.FulcioCertificateAuthority{Root: r, Intermediates: between, ValidityPeriodStart: r.NotBefore, ValidityPeriodEnd: r.NotAfter})
	}
	var stamps []root.TimestampingAuthority
	roots, between, leaves := split(tsa)
	for _, r := range roots {
		for _, leaf := range leaves {
			stamps = append(stamps, &root.SigstoreTimestampingAuthority{Root: r, Intermediates: between, Leaf: leaf, ValidityPeriodStart: leaf.NotBefore, ValidityPeriodEnd: leaf.NotAfter})
		}
	}
	return root.NewTrustedRoot(root.TrustedRootMediaType01, authorities, logs["ctfe"], stamps, logs["rekor"])
}

// split sorts certificates into self-signed ones, other authorities, and the rest.
func split(all []*x509.Certificate) (roots, between, leaves []*x509.Certificate) {
	for _, c := range all {
		switch {
		case !c.IsCA:
			leaves = append(leaves, c)
		case string(c.RawSubject) == string(c.RawIssuer) && c.CheckSignatureFrom(c) == nil:
			roots = append(roots, c)
		default:
			between = append(between, c)
		}
	}
	return roots, between, leaves
}

// transparencyLog returns a log with the public key. The hash of the key is its ID.
func transparencyLog(der []byte) (*root.TransparencyLog, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err == nil {
		err = certificate.CheckKey(key)
	}
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(der)
	hash := crypto.SHA256
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P384():
			hash = crypto.SHA384
		case elliptic.P521():
			hash = crypto.SHA512
		}
	case ed25519.PublicKey:
		hash = crypto.SHA512
	}
	// The verifier rejects a period without a start, and the start for this log is unknown.
	return &root.TransparencyLog{ID: id[:], HashFunc: crypto.SHA256, PublicKey: key, SignatureHashFunc: hash, ValidityPeriodStart: time.Unix(0, 0)}, nil
}
