package charges

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// inputs are the members of the object on which rows are evaluated, by name. n is the size of the row.
var inputs = map[string]func(n int) any{
	"one":      func(int) any { return int64(1) },
	"half":     func(int) any { return 0.5 },
	"n":        func(n int) any { return int64(n) },
	"as":       func(n int) any { return strings.Repeat("a", n) },
	"asEnd":    func(n int) any { return strings.Repeat("a", n) },
	"asB":      func(n int) any { return strings.Repeat("a", n) + "b" },
	"asHalfB":  func(n int) any { return strings.Repeat("a", n/2) + "b" },
	"upper":    func(n int) any { return strings.Repeat("A", n) },
	"greek":    func(n int) any { return strings.Repeat("ſ", n/2) },
	"greekK":   func(n int) any { return strings.Repeat("K", n/3) },
	"spaces":   func(n int) any { return strings.Repeat("\u2003", n/3) },
	"commas":   func(n int) any { return strings.Repeat(",", n) },
	"quotes":   func(n int) any { return strings.Repeat("\"\x01", n/2) },
	"angles":   func(n int) any { return strings.Repeat("<", n) },
	"digits":   func(n int) any { return strings.Repeat("1", n) },
	"decimal":  func(n int) any { return "1." + strings.Repeat("0", n) + "1e-300" },
	"zeros":    func(n int) any { return strings.Repeat("0h", n/2) },
	"version":  func(n int) any { return "1.2.3-" + strings.TrimSuffix(strings.Repeat("a.", n/2), ".") },
	"ranges":   func(n int) any { return strings.TrimSuffix(strings.Repeat("<1.2.3 || ", n/10), " || ") },
	"quantity": func(n int) any { return strings.Repeat("9", n) + "Ki" },
	"url": func(n int) any {
		return "https://a.b/" + strings.Repeat("%41", n/6) + "?" + strings.Repeat("a=%41&", n/12)
	},
	"address":  func(n int) any { return strings.Repeat("0", n) + "10.0.0.1" },
	"selector": func(n int) any { return strings.TrimSuffix(strings.Repeat("a,", n/2), ",") },
	"labels":   func(n int) any { return "a=b" + strings.Repeat(",a in (b)", n/9) },
	"name":     func(n int) any { return strings.Repeat("a.", n/2) + "a" },
	"image": func(n int) any {
		return "ghcr.io/" + strings.Repeat("a/", min(n, 240)/2) + "app:v1@sha256:" + strings.Repeat("0", 64)
	},
	"path":     func(n int) any { return strings.Repeat("/a/..", n/5) },
	"base64":   func(n int) any { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("a"), n*3/4)) },
	"json":     func(n int) any { return "[" + strings.TrimSuffix(strings.Repeat(`{"a":1},`, n/8), ",") + "]" },
	"jsonFlat": func(n int) any { return "[" + strings.TrimSuffix(strings.Repeat("1,", n/2), ",") + "]" },
	"yaml":     func(n int) any { return strings.Repeat("- a: 1\n", n/7) },
	"yamlFlat": func(n int) any { return "[" + strings.TrimSuffix(strings.Repeat("1,", n/2), ",") + "]" },
	"yamlDeep": func(n int) any { return strings.Repeat("[", min(n, 900)/2) + strings.Repeat("]", min(n, 900)/2) },
	"aliases": func(n int) any {
		return "a: &a [" + strings.TrimSuffix(strings.Repeat("1,", n/4), ",") + "]\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", n/6), ",") + "]\n"
	},
	"aliasText": func(n int) any {
		return "a: &a " + strings.Repeat("x", n/2) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", n/6), ",") + "]\n"
	},
	"gzipped": func(n int) any {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(bytes.Repeat([]byte("a"), n)) // it never fails
		_ = w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	},
	"certificate": func(n int) any { return certificate(n) },
	"format":      func(n int) any { return strings.Repeat("%s", n) },
	"precise":     func(n int) any { return fmt.Sprintf("%%.%df", n) },

	"counted":   func(n int) any { return fmt.Sprintf("a{0,%d}b", min(n, 990)) },
	"exact":     func(n int) any { return fmt.Sprintf("[ab]{%d}c", min(n, 990)) },
	"later":     func(int) any { return "a*b|a" },
	"laterMany": func(n int) any { return fmt.Sprintf("(?:a|[ab]*c{0,%d}d)", min(n, 900)) },
	"groups":    func(n int) any { return strings.Repeat("(a?)", min(n, 250)) + "b" },
	"oneGroup":  func(int) any { return "(a)*?b|a" },
	"boundary":  func(int) any { return `\ba*b|a` },
	"classes":   func(n int) any { return strings.Repeat(`\pL`, min(n, 200)/3) },
	"pattern":   func(n int) any { return strings.Repeat("[a-z]", n/5) },
	"question":  func(n int) any { return "*" + strings.Repeat("?", n/2) + "b*" },
	"stars":     func(n int) any { return strings.Repeat("*a", n/2) + "*b" },
	"slashes":   func(n int) any { return strings.Repeat(`\1`, n/2) },
	"dollars":   func(n int) any { return strings.Repeat("$1", n/2) },
	"named":     func(n int) any { return strings.Repeat("${x}", n/4) },
	"picks":     func(n int) any { return strings.Repeat(`[\pL]`, n/5) },
	"fill":      func(n int) any { return fmt.Sprintf("[a-z]{%d}", min(n, 1000)) },

	"list":    func(n int) any { return list(n, func(i int) any { return int64(i) }) },
	"listEnd": func(n int) any { return list(n, func(i int) any { return int64(i) }) },
	"falling": func(n int) any { return list(n, func(i int) any { return int64(n - i) }) },
	"floats":  func(n int) any { return list(n, func(i int) any { return float64(i) + 0.5 }) },
	"fives":   func(n int) any { return list(n, func(int) any { return "5Mi" }) },
	"texts": func(n int) any {
		return list(n, func(i int) any { return fmt.Sprintf("%s%d", strings.Repeat("a", 20), (i*7919)%n) })
	},
	"longs": func(n int) any {
		return list(n, func(i int) any { return strings.Repeat("a", 200) + fmt.Sprint((i*7919)%n) })
	},
	"booleans": func(n int) any { return list(n, func(int) any { return true }) },
	"lists":    func(n int) any { return list(n, func(int) any { return []any{int64(1), int64(2), int64(3)} }) },
	"listsEnd": func(n int) any { return list(n, func(int) any { return []any{int64(1), int64(2), int64(3)} }) },
	"objects": func(n int) any {
		return list(n, func(i int) any { return map[string]any{"k": fmt.Sprintf("k%d", i), "v": int64(i)} })
	},
	"map":    func(n int) any { return members(n) },
	"mapEnd": func(n int) any { return members(n) },
	"byName": func(n int) any { return map[string]any{"a": list(n, func(i int) any { return fmt.Sprint(i) })} },
}

func list(n int, of func(int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

func members(n int) map[string]any {
	out := make(map[string]any, n)
	for i := range n {
		out[fmt.Sprintf("key-%d", (i*7919)%n)] = "value"
	}
	return out
}

// document returns the members that an expression names. It is decoded, so that it shares nothing.
func document(expression string, n int) map[string]any {
	out := map[string]any{}
	for name, make := range inputs {
		if mentions(expression, name) {
			out[name] = make(n)
		}
	}
	return out
}

// mentions reports whether a name occurs in an expression as a word.
func mentions(expression, name string) bool {
	for at := 0; ; {
		i := strings.Index(expression[at:], name)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(name)
		if (at == 0 || !isWord(expression[at-1])) && (end == len(expression) || !isWord(expression[end])) {
			return true
		}
		at = end
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// key is the key of the certificates in rows.
var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// certificate returns a certificate of about n bytes.
func certificate(n int) string {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotAfter: time.Unix(1<<32, 0)}
	for range n / 20 {
		template.DNSNames = append(template.DNSNames, "a.example.com")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key().PublicKey, key())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
