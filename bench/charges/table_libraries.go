package charges

import (
	"regexp"
	"strings"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
)

// unavailable is a part of the error of a query that nothing answers here. Its time is that of the client, which waits.
const unavailable = "available"

// libraryRows are the functions of our own libraries.
var libraryRows = []Row{
	cel("hash.md5", "hash.md5(object.as) != ''", textSizes), cel("hash.sha1", "hash.sha1(object.as) != ''", textSizes), cel("hash.sha256", "hash.sha256(object.as) != ''", textSizes),
	cel("json.unmarshal", "json.unmarshal(object.json) != null", textSizes), cel("json.unmarshal, flat", "json.unmarshal(object.jsonFlat) != null", textSizes), cel("json.marshal", "json.marshal(object.objects) != ''", listSizes), cel("json.marshal of a text", "json.marshal(object.quotes) != ''", textSizes),
	cel("json.marshal, markup", "json.marshal(object.angles) != ''", textSizes), cel("yaml.parse", "yaml.parse(object.yaml) != null", [3]int{100, 3_000, 50_000}), cel("yaml.parse, flat", "yaml.parse(object.yamlFlat) != null", [3]int{100, 3_000, 50_000}),
	cel("yaml.parse, nested", "yaml.parse(object.yamlDeep) != null", [3]int{10, 100, 900}), cel("yaml.parse, aliases", "yaml.parse(object.aliases) != null", [3]int{100, 300, 1_000}), cel("yaml.parse, alias of a text", "yaml.parse(object.aliasText) != null", [3]int{100, 300, 1_000}),
	cel("gzip.compress", "gzip.compress(object.as) != b''", textSizes), cel("gzip.decompress", "gzip.decompress(base64.decode(object.gzipped)) != ''", textSizes),
	cel("time.now", loop("time.now() != null"), listSizes), cel("time.truncate", loop("time.truncate(timestamp(0), duration('1h')) != null"), listSizes), cel("time.toCron", loop("time.toCron(timestamp(0)) != ''"), listSizes),
	cel("random.random", "random.random(object.fill) != ''", [3]int{10, 100, 1_000}), cel("random.random, short", loop("random() != ''"), listSizes), cel("random.random, classes", "random.random(object.picks) != ''", [3]int{10, 100, 1_000}),
	cel("transform.listObjToMap", "transform.listObjToMap(object.objects, object.objects, 'k', 'v') != {}", listSizes), cel("user.parseServiceAccount", "user.parseServiceAccount('system:serviceaccount:' + object.address).Name == ''", textSizes),
	cel("user.parseServiceAccount, short", loop("user.parseServiceAccount('system:serviceaccount:a:b').Name == 'b'"), listSizes),
	cel("x509.decode", "dyn(x509.decode(object.certificate)) != null", [3]int{100, 5_000, 30_000}), cel("parseImageReference", "parseImageReference(object.image).tag() == 'v1'", textSizes), cel("parseImageReference, invalid", "isImage(object.upper) || true", textSizes), cel("isImage", loop("isImage('ghcr.io/team/app:v1')"), listSizes),
	cel("registry", loop("image('nginx').registry() != ''"), listSizes), cel("repository", loop("image('nginx').repository() != ''"), listSizes), cel("identifier", loop("image('nginx').identifier() != ''"), listSizes), cel("identifierWithSeparator", loop("image('nginx').identifierWithSeparator() != ''"), listSizes),
	cel("tag", loop("image('nginx').tag() != ''"), listSizes), cel("digest", loop("image('nginx').digest() == ''"), listSizes), cel("containsDigest", loop("!image('nginx').containsDigest()"), listSizes),

	// Queries.
	cel("resource.get", "dyn(resource.get('v1', 'pods', 'a', 'b')) != null", singleSizes).failing(unavailable), cel("resource.list", "dyn(resource.list('v1', 'pods', 'a')) != null", singleSizes).failing(unavailable), cel("resource.post", "dyn(resource.post('v1', 'pods', {'a': dyn(1)})) != null", singleSizes).failing(unavailable),
	cel("resource.toGVR", "resource.toGVR('v1', 'Pod') != null", singleSizes).failing(unavailable), cel("http.get", "http.get('https://a.b') != null", singleSizes).failing(unavailable), cel("http.post", "http.post('https://a.b', {}) != null", singleSizes).failing(unavailable),
	cel("http.client", "http.client(object.certificate) != null", [3]int{100, 5_000, 30_000}), cel("get", "http.client(object.certificate).get('https://a.b') != null", singleSizes).failing(unavailable), cel("post", "http.client(object.certificate).post('https://a.b', {}) != null", singleSizes).failing(unavailable),
	cel("globalContext.get", "globalContext.get('a') != null", singleSizes).failing(unavailable), cel("image.getMetadata", "image.getMetadata('nginx') != null", singleSizes).failing(unavailable),
	cel("getImageData", "getImageData('nginx') != null", singleSizes).in(env.ImageValidating).failing(unavailable), cel("verifyImageSignatures", "verifyImageSignatures('nginx', []) > 0", singleSizes).in(env.ImageValidating).failing(unavailable),
	cel("verifyAttestationSignatures", "verifyAttestationSignatures('nginx', 'a', []) > 0", singleSizes).in(env.ImageValidating).failing(unavailable), cel("extractPayload", "extractPayload('nginx', 'a') != null", singleSizes).in(env.ImageValidating).failing(unavailable),
	cel("extractPayloads", "extractPayloads('nginx', 'a', 'b') != []", singleSizes).in(env.ImageValidating).failing(unavailable),
	cel("generator.apply", "generator.apply('a', [object.map])", listSizes).in(env.Generating).failing(unavailable),

	// Check requests. Their object has another shape.
	cel("http.Allowed", "["+repeatedText(50, "http.Allowed()")+"].size() > 0", singleSizes).in(env.HTTPChecks), cel("http.Denied", "["+repeatedText(50, "http.Denied('a')")+"].size() > 0", singleSizes).in(env.HTTPChecks), cel("Response", "["+repeatedText(50, "http.Denied('a').Response()")+"].size() > 0", singleSizes).in(env.HTTPChecks),
	cel("json.Unmarshal", "json.Unmarshal('["+repeatedText(500, "1")+"]') != null", singleSizes).in(env.HTTPChecks), cel("Header", "http.Allowed().Response() != null || object.attributes.Header('a').size() > 0", singleSizes).in(env.HTTPChecks), cel("QueryParam", "http.Allowed().Response() != null || object.attributes.QueryParam('a').size() > 0", singleSizes).in(env.HTTPChecks),
	cel("envoy.Allowed", "["+repeatedText(50, "envoy.Allowed()")+"].size() > 0", singleSizes).in(env.EnvoyChecks), cel("envoy.Denied", "["+repeatedText(50, "envoy.Denied(403)")+"].size() > 0", singleSizes).in(env.EnvoyChecks), cel("envoy.Header", "["+repeatedText(50, "envoy.Header('a', 'b')")+"].size() > 0", singleSizes).in(env.EnvoyChecks),
	cel("KeepEmptyValue", "["+repeatedText(50, "envoy.Header('a', 'b').KeepEmptyValue()")+"].size() > 0", singleSizes).in(env.EnvoyChecks), cel("WithHeader", "envoy.Allowed()"+strings.Repeat(".WithHeader('a', 'b')", 50)+" != null", singleSizes).in(env.EnvoyChecks),
	cel("WithResponseHeader", "envoy.Allowed()"+strings.Repeat(".WithResponseHeader('a', 'b')", 50)+" != null", singleSizes).in(env.EnvoyChecks), cel("WithoutHeader", "envoy.Allowed()"+strings.Repeat(".WithoutHeader('a')", 50)+" != null", singleSizes).in(env.EnvoyChecks),
	cel("WithoutQueryParam", "envoy.Allowed()"+strings.Repeat(".WithoutQueryParam('a')", 50)+" != null", singleSizes).in(env.EnvoyChecks), cel("WithQueryParam", "envoy.Allowed()"+strings.Repeat(".WithQueryParam('a', 'b')", 50)+" != null", singleSizes).in(env.EnvoyChecks),
	cel("WithBody", "envoy.Denied(401)"+strings.Repeat(".WithBody('a')", 50)+" != null", singleSizes).in(env.EnvoyChecks), cel("WithMessage", "envoy.Denied(401).Response()"+strings.Repeat(".WithMessage('a')", 50)+" != null", singleSizes).in(env.EnvoyChecks),
	cel("WithMetadata", "envoy.Allowed().Response()"+strings.Repeat(".WithMetadata({'a': 1})", 20)+" != null", singleSizes).in(env.EnvoyChecks),
	cel("jwt.Decode", "jwt.Decode('"+token+"', 'secret').Valid", singleSizes).in(env.HTTPChecks), cel("jwks.Fetch", "jwks.Fetch('https://a.b') != null", singleSizes).in(env.HTTPChecks).failing(unavailable),
}

// token is signed with the text secret.
const token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJyb2xlIjoiYWRtaW4ifQ.m0CF2My0uwEjcJXQzHibukFCbYzPHv-dvwuU2BUTwkc"

func repeatedText(n int, item string) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}

// matcherRows are the comparisons of texts that are no functions.
var matcherRows = []Row{
	matcher("wildcard", "*"), matcher("wildcard, prefix", "aaaa*"), matcher("wildcard, question marks", "*??????????????????????????????b*"), matcher("wildcard, stars", "*a*a*a*a*a*a*a*a*b"),
	{Language: JMESPath, Name: "wildcard, long", Sizes: [3]int{30, 1_000, 3_000}, of: func(n int) (func() (int64, error), error) {
		pattern, text := "*"+strings.Repeat("?", n/2)+"b*", strings.Repeat("a", n)
		return constant(int64(1+wildcard.Cost(pattern, text)), func() { wildcard.Match(pattern, text) }), nil
	}},
	{Language: JMESPath, Name: "image reference", Sizes: [3]int{30, 300, 4_000}, of: func(n int) (func() (int64, error), error) {
		text := "a.b/" + strings.Repeat("a", n) + "A"
		return constant(int64(50+len(text)/4), func() { _, _ = imageref.Parse(text) }), nil
	}},
	{Language: JMESPath, Name: "matchImageReferences", Sizes: [3]int{30, 300, 1_000}, of: func(n int) (func() (int64, error), error) {
		expression, text := `(?s)^`+strings.Repeat(".*a", n/4)+"b$", strings.Repeat("a", n)
		size, _ := compilecost.Regex(expression)
		re := regexp.MustCompile(expression)
		return constant(1+size.Search(len(text), false), func() { re.MatchString(text) }), nil
	}},
}

func matcher(name, pattern string) Row {
	return Row{Language: JMESPath, Name: name, Sizes: textSizes, of: func(n int) (func() (int64, error), error) {
		text, p := strings.Repeat("a", n), wildcard.Compile(pattern)
		return constant(int64(1+p.Cost(text)), func() { p.Match(text) }), nil
	}}
}

// constant returns an evaluation with a known charge.
func constant(steps int64, f func()) func() (int64, error) {
	return func() (int64, error) { f(); return steps, nil }
}
