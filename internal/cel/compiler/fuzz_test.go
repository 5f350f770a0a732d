package compiler

import (
	"os"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/value"
)

// fuzzLibrary fuzzes one library. Each input is inserted into one of the templates, and into calls of all functions that the library
// declares. In a template, A and B are texts, N is a number and X a floating-point number. No evaluation panics or takes long, whatever the
// input.
func fuzzLibrary(f *testing.F, name string, seeds []string, templates ...string) {
	l := env.LibraryNamed(name)
	for i := range l.Functions {
		templates = append(templates, callsOf(&l.Functions[i])...)
	}
	if len(templates) == 0 {
		f.Fatalf("the library %s has nothing to call", l.Name)
	}
	kinds := fuzzedIn(l)
	for i := range templates {
		for _, seed := range append(seeds, "a", "") {
			f.Add(i, seed, "a", int64(i), 1.5)
		}
	}
	f.Fuzz(func(t *testing.T, which int, a, b string, n int64, x float64) {
		if which < 0 || which >= len(templates) {
			return
		}
		expression := strings.NewReplacer("$A", value.JSON(a), "$B", value.JSON(b), "$N", value.JSON(n), "$X", value.JSON(x)).Replace(templates[which])
		for _, d := range kinds {
			begun := time.Now()
			got := evaluated(t, d, expression, 100_000)
			if strings.Contains(got, "panic") && !strings.Contains(expression, "panic") {
				t.Errorf("%s: %s", expression, got)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("%s took %v", expression, took)
			}
		}
	})
}

// fuzzedIn returns the environments in which a library is fuzzed: those of a cluster-wide policy and of a namespaced one.
func fuzzedIn(l *env.Library) (out []env.Declarations) {
	for _, k := range []env.Kind{env.Validating, env.Mutating, env.Generating, env.Deleting, env.ImageValidating, env.HTTPChecks, env.EnvoyChecks} {
		if l.In(k) {
			return []env.Declarations{{Kind: k}, {Kind: k, Namespaced: true}}
		}
	}
	return []env.Declarations{{Kind: env.Native}}
}

// callsOf returns calls of all overloads of a function: with arguments of the correct types, and with arguments whose types are known only at
// run time.
func callsOf(call *env.Function) (out []string) {
	for _, o := range call.Overloads {
		args, loose := make([]string, len(o.Args)), make([]string, len(o.Args))
		for i, t := range o.Args {
			args[i] = fuzzArgument(t.String(), i)
			loose[i] = []string{"dyn($A)", "dyn([$A, $B])", "dyn({$A: $N})", "dyn($X)", "dyn(object)"}[(i+len(out))%5]
		}
		for _, list := range [][]string{args, loose} {
			if call.Member {
				out = append(out, list[0]+"."+call.Names[0]+"("+strings.Join(list[1:], ", ")+")")
			} else {
				out = append(out, call.Names[0]+"("+strings.Join(list, ", ")+")")
			}
		}
	}
	return out
}

func fuzzArgument(typ string, i int) string {
	switch {
	case typ == "string":
		return []string{"$A", "$B"}[i%2]
	case typ == "int":
		return "$N"
	case typ == "double":
		return "$X"
	case typ == "bytes":
		return "bytes($A)"
	case typ == "timestamp":
		return "timestamp($A)"
	case typ == "duration":
		return "duration($A)"
	case strings.HasPrefix(typ, "list"):
		return "[$A, $B]"
	case strings.HasPrefix(typ, "map"):
		return "{$A: $B}"
	}
	return "dyn({$A: [$B, $N]})"
}

func FuzzLibraryAuthorizer(f *testing.F) {
	fuzzLibrary(f, "authorizer", nil, "authorizer.group($A).resource($B).namespace($A).name($B).check($A).allowed()", "authorizer.path($A).check($B).reason() == $A")
}

func FuzzLibraryExtensions(f *testing.F) {
	fuzzLibrary(f, "extensions", []string{"aGk=", "10.0.0.0/8", "::1", "1.2.3", "1Gi", "https://a.b/c?d=e"},
		"base64.encode(bytes($A))", "base64.decode($A)", "quantity($A).add(quantity($B)).asInteger()", "isQuantity($A) && quantity($A).isInteger()",
		"ip($A).family()", "cidr($A).containsIP($B)", "isURL($A) && url($A).getHost() == $B", "semver($A, true).major()", "isSemver($A)", "$A.find($B)",
		"$A.findAll($B, $N)", "format.dns1123Label().validate($A).hasValue()", "format.named($A)", "cel.bind(x, $A, x + x + $B)", "$A.lowerAscii() + $B")
}

func FuzzLibraryHash(f *testing.F) { fuzzLibrary(f, "hash", nil) }

func FuzzLibraryLists(f *testing.F) {
	fuzzLibrary(f, "lists", nil, "[$A, $B].slice($N, $N + 1)", "[[$A], [$B]].flatten($N)", "[$A, $B, $A].distinct()", "[$A, $B].sort()", "[$A, $B].sortBy(x, x.size())",
		"[$A, $B].reverse()", "[$A].first().orValue($B)", "lists.range($N)", "[$N, $N].sum()", "[$A, $B].indexOf($A)", "[$X, $X].max()")
}

func FuzzLibraryMath(f *testing.F) {
	fuzzLibrary(f, "math", nil, "math.greatest($N, $N, 1)", "math.least($X, 1.0)", "math.ceil($X)", "math.round($X)", "math.round($X, $N)", "math.abs($N)", "math.sign($X)",
		"math.bitShiftLeft($N, $N)", "math.bitOr($N, 1)", "math.sqrt($X)", "math.isNaN($X)", "math.trunc($X)")
}

func FuzzLibraryMutations(f *testing.F) {
	fuzzLibrary(f, "mutations", []string{"/a/b", "~1"}, "[JSONPatch{op: $A, path: $B, value: $N}]", "Object{metadata: Object.metadata{name: $A, labels: {$A: $B}}}", "jsonpatch.escapeKey($A)")
}

func FuzzLibraryOptional(f *testing.F) {
	fuzzLibrary(f, "optional", nil, "object[?$A].orValue($B)", "optional.of($A).optMap(x, x + $B)", "dyn(object)[?$A][?$B].hasValue()", "[?object[?$A]]", "$A.orValue($B)", "{?$A: object[?$B]}")
}

func FuzzLibraryRegex(f *testing.F) {
	fuzzLibrary(f, "regex", []string{"(a+)+$", "[", "a{1000}"}, "regex.replace($A, $B, $A)", "regex.replace($A, $B, $A, $N)", "regex.extract($A, $B).orValue('')", "regex.extractAll($A, $B)", "$A.matches($B)")
}

func FuzzLibrarySets(f *testing.F) {
	fuzzLibrary(f, "sets", nil, "sets.contains([$A, $B], [$A])", "sets.equivalent([$A], [$B, $A])", "sets.intersects([$N], [$N, 1])", "sets.contains([[$A]], [[$B]])")
}

func FuzzLibraryStrings(f *testing.F) {
	fuzzLibrary(f, "strings", []string{"é", "%s %d", "%e"}, "$A.charAt($N)", "$A.indexOf($B, $N)", "$A.lastIndexOf($B)", "[$A, $B].join($A)", "$A.replace($B, $A, $N)", "$A.split($B, $N)",
		"$A.substring($N, $N + 1)", "$A.trim()", "$A.format([$B, $N])", "'%s %d %.3f %x'.format([$A, $N, $X, $B])", "strings.quote($A)", "$A.upperAscii()")
}

func FuzzLibraryJSON(f *testing.F) {
	fuzzLibrary(f, "json", []string{`{"a": [1, 2.5, null]}`, "[[[[", `"\ud800"`, "1e999"}, "json.marshal(json.unmarshal($A))")
}

func FuzzLibraryYAML(f *testing.F) {
	fuzzLibrary(f, "yaml", []string{"a: &x [1]\nb: [*x, *x]", "- yes\n- 1e3", "!!binary x", "? [a]: b"}, "json.marshal(yaml.parse($A))")
}

func FuzzLibraryGzip(f *testing.F) {
	fuzzLibrary(f, "gzip", []string{"H4sIAAAAAAAA/0vMGQAAAP//AQAA//9mrcuQAgAAAA=="}, "gzip.decompress(base64.decode($A))", "gzip.decompress(gzip.compress($A)) == $A")
}

func FuzzLibraryTime(f *testing.F) {
	fuzzLibrary(f, "time", []string{"2026-01-02T03:04:05Z", "1h"}, "time.toCron(timestamp($A))", "time.truncate(timestamp($A), duration($B))", "time.truncate(time.now(), duration($A))")
}

func FuzzLibraryRandom(f *testing.F) {
	fuzzLibrary(f, "random", []string{"[a-z]{5}", "(a|b)*", "[^a]{3,7}", `\p{Greek}`, "((a{9}){9}){9}"})
}

func FuzzLibraryTransform(f *testing.F) {
	fuzzLibrary(f, "transform", nil, "listObjToMap([{'a': $A}], [{'b': $B}], 'a', 'b')", "listObjToMap([{$A: $A}], [{$B: $B}], $A, $B)")
}

func FuzzLibraryUser(f *testing.F) {
	fuzzLibrary(f, "user", []string{"system:serviceaccount:a:b", "system:serviceaccount:", "::::"})
}

func FuzzLibraryX509(f *testing.F) {
	text, err := os.ReadFile(testCertificate)
	if err != nil {
		f.Fatal(err)
	}
	fuzzLibrary(f, "x509", []string{string(text), "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----"}, "json.marshal(x509.decode($A))")
}

func FuzzLibraryImage(f *testing.F) {
	fuzzLibrary(f, "image", []string{"ghcr.io/a/b:1", "a@sha256:" + strings.Repeat("0", 64), "localhost:5000/x"}, "isImage($A) ? image($A).repository() + image($A).identifier() : ''", "image($A) == image($B)")
}

func FuzzLibraryImageData(f *testing.F) {
	fuzzLibrary(f, "imagedata", []string{"ghcr.io/team/app:1"})
}

func FuzzLibraryResource(f *testing.F) {
	fuzzLibrary(f, "resource", []string{"v1", "configmaps", "pods/log", "apps/v1", "../x"}, "resource.get($A, $B, 'default', $A)", "resource.get($A, $B, $A)", "resource.list($A, $B, 'default', {$A: $B})",
		"resource.list($A, $B)", "resource.post($A, $B, {$A: $B})", "resource.get(resource.toGVR($A, $B), 'default', $A)")
}

func FuzzLibraryHTTP(f *testing.F) {
	fuzzLibrary(f, "http", []string{"https://a.example/x", "http://169.254.169.254/", "\x00"}, "http.get($A, {$A: $B})", "http.post($A, {$A: $B}, {$B: $A})", "http.client($A).get($B)")
}

func FuzzLibraryGlobalContext(f *testing.F) {
	fuzzLibrary(f, "globalContext", []string{"deployments", "broken"})
}

func FuzzLibraryGenerator(f *testing.F) {
	fuzzLibrary(f, "generator", nil, "generator.apply($A, [{$A: $B}])", "generator.apply([{$A: $B, 'items': [{$B: $N}]}])")
}

func FuzzLibraryGetImageData(f *testing.F) {
	fuzzLibrary(f, "getImageData", []string{"ghcr.io/team/app:1"}, "getImageData($A).config.?config.?User.orValue($B)")
}

func FuzzLibraryImageVerify(f *testing.F) {
	fuzzLibrary(f, env.LibraryImageVerify, []string{"ghcr.io/team/app:1", "team", "sbom"}, "verifyImageSignatures($A, [attestors.team, attestors[$B], dyn($N)])",
		"verifyAttestationSignatures($A, attestations[$B], [attestors.stranger, attestors.team])", "extractPayload($A, $B)[$B]", "extractPayloads($A, $B, 'team')")
}

func FuzzLibraryCheck(f *testing.F) {
	fuzzLibrary(f, "check", []string{`{"a": [1]}`, "[[[["}, "http.Denied($A).Response() == http.Denied($B).Response()", "$A == $B ? null : http.Denied($A).Response()")
}

func FuzzLibraryHTTPCheck(f *testing.F) {
	fuzzLibrary(f, "httpCheck", []string{"x", "X"}, "object.attributes.Header($A)", "object.attributes.QueryParam($A)", "object.attributes.header[?$A].orValue([$B])", "[object, http.Denied($A)] == [object, http.Denied($B)]")
}

func FuzzLibraryEnvoy(f *testing.F) {
	fuzzLibrary(f, "envoy", nil, "envoy.Denied($N).WithHeader($A, $B).WithHeader(envoy.Header($B, $A).KeepEmptyValue()).WithBody($A).Response().WithMessage($B)",
		"envoy.Allowed().WithQueryParam($A, $B).WithoutHeader($A).WithResponseHeader($B, $A).Response().WithMetadata({$A: $N, $B: [$X]})", "envoy.Denied($N) == envoy.Denied(403)",
		"object.attributes.request.http.headers[?$A].orValue($B)")
}

func FuzzLibraryJWT(f *testing.F) {
	fuzzLibrary(f, "jwt", []string{"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJyb2xlIjoiYWRtaW4ifQ.m0CF2My0uwEjcJXQzHibukFCbYzPHv-dvwuU2BUTwkc", "eyJhbGciOiJub25lIn0.e30.", "..", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"}, "jwt.Decode($A, $B)", "jwt.Decode($A, jwks.Fetch('https://service.example/jwks')).Claims",
		"has(jwt.Decode($A, 'secret').Claims)")
}

// Every library has a fuzz target.
func TestEveryLibraryIsFuzzed(t *testing.T) {
	text, err := os.ReadFile("fuzz_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range env.Libraries {
		if !strings.Contains(strings.ToLower(string(text)), "func fuzzlibrary"+strings.ToLower(l.Name)+"(f *testing.f)") {
			t.Errorf("there is no target for the library %s: add FuzzLibrary%s", l.Name, l.Name)
		}
	}
}
