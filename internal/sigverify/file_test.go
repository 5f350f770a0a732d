package sigverify_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// fileOf returns a file with the content.
func fileOf(content string) sigverify.File {
	sum := sha256.Sum256([]byte(content))
	return sigverify.File{
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, Size: int64(len(content)), Content: func() ([]byte, error) { return []byte(content), nil },
	}
}

// digestOf returns the same file with only its digest.
func digestOf(content string) sigverify.File {
	return sigverify.File{Digest: fileOf(content).Digest, Size: -1}
}

// entryOf returns a log entry in the form for bundles.
func (s *services) entryOf(body object, at time.Time) object {
	s.t.Helper()
	logged := s.log(body, at)
	proof, err := s.GetInclusionProof(logged.body)
	if err != nil {
		s.t.Fatal(err)
	}
	id, _ := hex.DecodeString(logged.id)
	hash, _ := hex.DecodeString(*proof.RootHash)
	return object{
		"logIndex": logged.n, "logId": object{"keyId": id}, "kindVersion": object{"kind": body["kind"], "version": body["apiVersion"]}, "integratedTime": logged.at.Unix(),
		"inclusionPromise": object{"signedEntryTimestamp": logged.set}, "canonicalizedBody": logged.body,
		"inclusionProof": object{"logIndex": *proof.LogIndex, "rootHash": hash, "treeSize": *proof.TreeSize, "checkpoint": object{"envelope": *proof.Checkpoint}},
	}
}

// blobBy returns a bundle of version 0.3 with a signature over the content itself.
func (s *services) blobBy(p person, content string, at time.Time, change ...func(object)) []byte {
	sig, sum := sign(p.key, crypto.SHA256, []byte(content)), sha256.Sum256([]byte(content))
	b := object{"mediaType": kindBundle, "verificationMaterial": object{
		"certificate": object{"rawBytes": p.cert.Raw}, "tlogEntries": []object{s.entryOf(hashed([]byte(content), sig, certPEM(p.cert)), at)},
	}, "messageSignature": object{"messageDigest": object{"algorithm": "SHA2_256", "digest": sum[:]}, "signature": sig}}
	for _, f := range change {
		f(b)
	}
	out, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// version returns a function that converts a bundle to an older version, in which the certificate is in a chain.
func version(v string, more ...[]byte) func(object) {
	return func(b object) {
		m := b["verificationMaterial"].(object)
		chain := []object{m["certificate"].(object)}
		for _, der := range more {
			chain = append(chain, object{"rawBytes": der})
		}
		delete(m, "certificate")
		b["mediaType"], m["x509CertificateChain"] = "application/vnd.dev.sigstore.bundle+json;version="+v, object{"certificates": chain}
	}
}

// inEntry returns a function that changes the log entry of a bundle.
func inEntry(change func(object)) func(object) {
	return func(b object) { change(b["verificationMaterial"].(object)["tlogEntries"].([]object)[0]) }
}

func without(names ...string) func(object) {
	return func(o object) {
		for _, n := range names[:len(names)-1] {
			o = o[n].(object)
		}
		delete(o, names[len(names)-1])
	}
}

// TestFiles verifies bundles for files: such as other clients write, and such as no client may accept.
func TestFiles(t *testing.T) {
	s, other := newServices(t), newServices(t)
	p := newPlace(t)
	p.trust = s
	who, now := s.person(), time.Now()
	const content = "hello\n"
	about := statement(fileOf(content).Digest, "https://team.example/review", object{}, nil)
	plain := s.bundleBy(who, about, now).blob
	hashedEntry := func(text []byte) func(object) {
		return func(b object) {
			e := b["dsseEnvelope"].(object)
			sig, _ := base64.StdEncoding.DecodeString(e["signatures"].([]any)[0].(object)["sig"].(string))
			b["verificationMaterial"].(object)["tlogEntries"] = []object{s.entryOf(hashed(text, sig, certPEM(who.cert)), now)}
		}
	}
	typed := func(kind any) []byte {
		var st object
		if err := json.Unmarshal(about, &st); err != nil {
			t.Fatal(err)
		}
		if delete(st, "_type"); kind != nil {
			st["_type"] = kind
		}
		text, _ := json.Marshal(st)
		return s.bundleBy(who, text, now).blob
	}
	stampOf := func(s *services, over string) func(object) {
		return func(b object) {
			sig := []byte(over)
			if over == "" {
				sig = b["messageSignature"].(object)["signature"].([]byte)
			}
			stamp, err := s.TimestampResponse(sig)
			if err != nil {
				t.Fatal(err)
			}
			if over == "garbage" {
				stamp = sig
			}
			b["verificationMaterial"].(object)["timestampVerificationData"] = object{"rfc3161Timestamps": []object{{"signedTimestamp": stamp}}}
		}
	}
	identity := byName("https://issuer.example", workflow)
	for name, c := range map[string]struct {
		bundle []byte
		of     sigverify.File
		kind   string
		by     *world.Attestor
		want   string // part of the reason; empty if accepted
	}{
		"a statement":                        {bundle: plain},
		"a statement, by the digest":         {bundle: plain, of: digestOf(content)},
		"a statement of the type":            {bundle: plain, kind: "https://team.example/review"},
		"a statement of another type":        {bundle: plain, kind: "https://team.example/other", want: "not a statement of the type"},
		"a statement about another file":     {bundle: plain, of: fileOf("other"), want: "no subject of the statement"},
		"a statement by another":             {bundle: plain, by: byName("https://issuer.example", "someone"), want: "subject mismatch"},
		"a statement of the first version":   {bundle: typed("https://in-toto.io/Statement/v0.1")},
		"a statement of a later version":     {bundle: typed("https://in-toto.io/Statement/v2"), want: `the statement has the type "https://in-toto.io/Statement/v2"`},
		"a statement of no version":          {bundle: typed(nil), want: `the statement has the type ""`},
		"an envelope logged by its hash":     {bundle: s.bundleBy(who, about, now, hashedEntry(dsse.PAE("application/vnd.in-toto+json", about))).blob},
		"an envelope logged by another hash": {bundle: s.bundleBy(who, about, now, hashedEntry([]byte("other"))).blob, want: "invalid signature"},
		"a signature":                        {bundle: s.blobBy(who, content, now)},
		"a signature, by the digest":         {bundle: s.blobBy(who, content, now), of: digestOf(content)},
		"a signature of another file":        {bundle: s.blobBy(who, content, now), of: fileOf("other"), want: "for a different digest"},
		"a signature is no statement":        {bundle: s.blobBy(who, content, now), kind: "https://team.example/review", want: "not a statement of the type"},
		"a signature without a digest":       {bundle: s.blobBy(who, content, now, without("messageSignature", "messageDigest")), want: "missing verification material"},
		"version 0.1":                        {bundle: s.blobBy(who, content, now, version("0.1"))},
		"version 0.1 without proof":          {bundle: s.blobBy(who, content, now, version("0.1"), inEntry(without("inclusionProof")))},
		"version 0.1 without promise":        {bundle: s.blobBy(who, content, now, version("0.1"), inEntry(without("inclusionPromise"))), want: "inclusion promises missing"},
		"version 0.2":                        {bundle: s.blobBy(who, content, now, version("0.2"))},
		"version 0.2 without proof":          {bundle: s.blobBy(who, content, now, version("0.2"), inEntry(without("inclusionProof"))), want: "inclusion proof missing"},
		"version 0.3 with a chain":           {bundle: s.blobBy(who, content, now, version("0.3")), want: "cannot be X.509 certificate chain"},
		"version 0.4":                        {bundle: s.blobBy(who, content, now, func(b object) { b["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.4+json" }), want: "not yet supported"},
		"a root in the chain":                {bundle: s.blobBy(who, content, now, version("0.1", s.root.Raw)), want: "its chain contains the root"},
		"no checkpoint":                      {bundle: s.blobBy(who, content, now, inEntry(without("inclusionProof", "checkpoint"))), want: "missing required checkpoint"},
		"another checkpoint": {bundle: s.blobBy(who, content, now, inEntry(func(e object) {
			e["inclusionProof"] = other.entryOf(object{"apiVersion": "0.0.1", "kind": "x"}, now)["inclusionProof"]
		})), want: "does not match expected root"},
		"another promise": {bundle: s.blobBy(who, content, now, inEntry(func(e object) { e["inclusionPromise"] = object{"signedEntryTimestamp": []byte("other")} })), want: "0 < 1"},
		"another time":    {bundle: s.blobBy(who, content, now, inEntry(func(e object) { e["integratedTime"] = now.Unix() - 1 })), want: "0 < 1"},
		"an entry about another file": {bundle: s.blobBy(who, content, now, func(b object) {
			b["verificationMaterial"].(object)["tlogEntries"] = []object{s.entryOf(hashed([]byte("other"), sign(who.key, crypto.SHA256, []byte("other")), certPEM(who.cert)), now)}
		}), want: "transparency log signature does not match"},
		"an entry of another log": {bundle: s.blobBy(who, content, now, func(b object) {
			b["verificationMaterial"].(object)["tlogEntries"] = []object{other.entryOf(hashed([]byte(content), b["messageSignature"].(object)["signature"].([]byte), certPEM(who.cert)), now)}
		}), want: "0 < 1"},
		"no entry":                     {bundle: s.blobBy(who, content, now, without("verificationMaterial", "tlogEntries")), want: "0 < 1"},
		"logged after the certificate": {bundle: s.blobBy(who, content, now.Add(time.Hour)), want: "expired before observed time"},
		"another certificate": {bundle: s.blobBy(who, content, now, func(b object) {
			b["verificationMaterial"].(object)["certificate"] = object{"rawBytes": s.person().cert.Raw}
		}), want: "invalid signature"},
		"an authority that is not known":   {bundle: other.blobBy(other.person(), content, now), want: "0 < 1"},
		"a time stamp":                     {bundle: s.blobBy(who, content, now, stampOf(s, ""))},
		"a time stamp of an unknown":       {bundle: s.blobBy(who, content, now, stampOf(other, ""))},
		"a time stamp over something else": {bundle: s.blobBy(who, content, now, stampOf(s, "other")), want: "unable to verify RFC3161 timestamp"},
		"a time stamp that is none":        {bundle: s.blobBy(who, content, now, stampOf(s, "garbage")), want: "unable to verify RFC3161 timestamp"},
		"two envelopes": {bundle: s.bundleBy(who, about, now, func(b object) {
			e := b["dsseEnvelope"].(object)
			e["signatures"] = append(e["signatures"].([]any), e["signatures"].([]any)[0])
		}).blob, want: "exactly one signature"},
		"no JSON":                   {bundle: []byte("hello"), want: "syntax error"},
		"fields that are not known": {bundle: []byte(strings.Replace(string(plain), `"mediaType"`, `"other":1,"mediaType"`, 1)), want: "unknown field"},
		"an empty file of JSON":     {bundle: []byte("{}"), want: "unsupported"},
	} {
		if c.of.Digest.Hex == "" {
			c.of = fileOf(content)
		}
		if c.by == nil {
			c.by = identity
		}
		found, err := p.verifier.ExamineBundle(t.Context(), c.bundle, c.of, c.kind, c.by)
		if err != nil || found.Accepted != (c.want == "") || !strings.Contains(found.Reason, c.want) || found.Unknown {
			t.Errorf("%s: %+v, error %v, want %q", name, found, err, c.want)
		}
	}
}

// TestFilesByKey verifies bundles for files with keys, which need neither logs nor trusted material.
func TestFilesByKey(t *testing.T) {
	p := newPlace(t)
	_, pure, _ := ed25519.GenerateKey(nil)
	ec := newKey(elliptic.P256())
	const content = "hello\n"
	blob := func(key crypto.Signer, algorithm string, digest []byte) []byte {
		out, _ := json.Marshal(object{"mediaType": kindBundle, "verificationMaterial": object{"publicKey": object{"hint": "key"}}, "messageSignature": object{
			"messageDigest": object{"algorithm": algorithm, "digest": digest}, "signature": sign(key, crypto.SHA256, []byte(content)),
		}})
		return out
	}
	sum := sha256.Sum256([]byte(content))
	logged := byKey(ec)
	logged.Rekor.Ignore = false
	for name, c := range map[string]struct {
		bundle  []byte
		of      sigverify.File
		by      *world.Attestor
		want    string
		unknown bool
	}{
		"P-256":                          {blob(ec, "SHA2_256", sum[:]), fileOf(content), byKey(ec), "", false},
		"P-256, by the digest":           {blob(ec, "SHA2_256", sum[:]), digestOf(content), byKey(ec), "", false},
		"P-256, another key":             {blob(ec, "SHA2_256", sum[:]), fileOf(content), byKey(newKey(elliptic.P256())), "invalid signature", false},
		"P-256, another digest":          {blob(ec, "SHA2_256", make([]byte, 32)), fileOf(content), byKey(ec), "for a different digest", false},
		"a log is demanded":              {blob(ec, "SHA2_256", sum[:]), fileOf(content), logged, "0 < 1", false},
		"Ed25519":                        {blob(pure, "SHA2_256", sum[:]), fileOf(content), byKey(pure), "", false},
		"Ed25519, by the digest":         {blob(pure, "SHA2_256", sum[:]), digestOf(content), byKey(pure), "only its digest is given", true},
		"an algorithm that is not known": {blob(ec, "SHA3_256", sum[:]), fileOf(content), byKey(ec), "unsupported digest algorithm", false},
	} {
		found, err := p.verifier.ExamineBundle(t.Context(), c.bundle, c.of, "", c.by)
		if err != nil || found.Accepted != (c.want == "") || !strings.Contains(found.Reason, c.want) || found.Unknown != c.unknown {
			t.Errorf("%s: %+v, error %v, want %q", name, found, err, c.want)
		}
	}
	if p.trusted > 0 {
		t.Errorf("the trust was asked %d times", p.trusted)
	}
}
