package charges

import (
	"slices"

	"ephor.invalid/ephor/internal/cel/env"
)

// The usual sizes: of texts in bytes, of lists in elements, of work that grows with the square, and of single values.
var (
	textSizes   = [3]int{100, 5_000, 200_000}
	listSizes   = [3]int{10, 300, 10_000}
	squareSizes = [3]int{10, 100, 1_000}
	singleSizes = [3]int{1, 10, 60}
)

// Rows is the table.
var Rows = slices.Concat(celRows, jmespathRows, matcherRows, conditionRows(), patternRows())

func cel(name, expression string, sizes [3]int) Row {
	return Row{Language: CEL, Name: name, Expression: expression, Sizes: sizes, kind: env.Validating}
}

func (r Row) in(kind env.Kind) Row {
	r.kind = kind
	return r
}

func (r Row) failing(text string) Row {
	r.fails = text
	return r
}

func jp(name, expression string, sizes [3]int) Row {
	return Row{Language: JMESPath, Name: name, Expression: expression, Sizes: sizes}
}

// loop repeats an expression on x for each element of a list.
func loop(expression string) string { return "object.list.all(x, " + expression + ")" }

var celRows = slices.Concat([]Row{
	// Operators.
	cel("_&&_", loop("x >= 0 && x >= 0"), listSizes), cel("_||_", loop("x < 0 || x >= 0"), listSizes), cel("!_", loop("!(x < 0)"), listSizes),
	cel("_?_:_", loop("x < 0 ? false : true"), listSizes), cel("-_", loop("-int(x) <= 0"), listSizes), cel("_-_", loop("x - 1 < x"), listSizes),
	cel("_*_", loop("x * 1 == x"), listSizes), cel("_/_", loop("x / 2 <= x"), listSizes), cel("_%_", loop("int(x) % 2 < 2"), listSizes),
	cel("_<_", "object.as < object.asB", textSizes), cel("_<=_", "object.as <= object.asEnd", textSizes), cel("_>_", "object.as > object.asEnd", textSizes),
	cel("_>=_", "object.as >= object.asEnd", textSizes), cel("_==_", "object.as == object.asEnd", textSizes), cel("_==_ lists", "object.lists == object.listsEnd", listSizes),
	cel("_==_ maps", "object.map == object.mapEnd", listSizes), cel("_==_ bytes", "[bytes(object.as)].all(b, object.list.all(x, b == b))", squareSizes),
	cel("_==_ short lists", "["+repeatedText(60, "1")+"].map(x, dyn(x)) == ["+repeatedText(60, "1.0")+"].map(x, dyn(x))", singleSizes),
	cel("_==_ optionals", "optional.of(object.lists) == optional.of(object.listsEnd)", listSizes),
	cel("_==_ literals", loop("[1, 2, 3, 4, 5, 6, 7, 8] == [1, 2, 3, 4, 5, 6, 7, 8]"), listSizes),
	cel("_!=_", "object.lists != object.listsEnd", listSizes),
	cel("_+_", "object.as + object.as + object.as != ''", textSizes), cel("_+_ lists", "(object.list + object.list)[0] == 0", listSizes),
	cel("_+_ made lists", "(object.list.map(x, x) + object.list.map(x, x))[0] == 0", listSizes), cel("_+_ bytes", "bytes(object.as) + bytes(object.as) != b''", textSizes),
	cel("_[_]", loop("object.list[int(x)] == x"), listSizes), cel("_[?_]", loop("object.list[?int(x)].hasValue()"), listSizes), cel("_?._", loop("object.?one.hasValue()"), listSizes),
	cel("@in", "object.n in object.list", listSizes), cel("@in texts", "object.asB in object.longs", listSizes), cel("@in lists", "object.list in [object.listEnd, object.listEnd]", listSizes),
	cel("@in map", loop("'key-1' in object.map"), listSizes),
	cel("list literal", loop("[x, x, x, x, x, x].size() == 6"), listSizes), cel("map literal", loop("{'a': x, 'b': x, 'c': x}.size() == 3"), listSizes),
	cel("list literal of lists", loop("[[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8]].size() == 3"), listSizes),
	cel("field", loop("object.one == 1"), listSizes),

	// Macros.
	cel("all", loop("x >= 0"), listSizes), cel("exists", "object.list.exists(x, x < 0)", listSizes), cel("exists_one", "object.list.exists_one(x, x == 0)", listSizes),
	cel("existsOne", "object.list.existsOne(i, x, x == 0)", listSizes), cel("map", "object.list.map(x, x).size() > 0", listSizes), cel("map of strings", "object.texts.map(x, x + 'a').size() > 0", listSizes),
	cel("filter", "object.list.filter(x, x >= 0).size() > 0", listSizes), cel("map with condition", "object.list.map(x, x >= 0, x).size() > 0", listSizes),
	cel("all of a map", "object.map.all(k, k != '')", listSizes), cel("all of pairs", "object.map.all(k, v, v != '')", listSizes), cel("has", loop("has(object.one)"), listSizes),
	cel("transformList", "object.list.transformList(i, x, x).size() > 0", listSizes), cel("transformMap", "object.list.transformMap(i, x, x).size() > 0", listSizes),
	cel("transformMapEntry", "object.list.transformMapEntry(i, x, {x: i}).size() > 0", listSizes), cel("sortBy", "object.falling.sortBy(x, -int(x)).size() > 0", listSizes),
	cel("optMap", loop("object.?one.optMap(y, y).hasValue()"), listSizes), cel("optFlatMap", loop("object.?one.optFlatMap(y, optional.of(y)).hasValue()"), listSizes),
	cel("bind", loop("cel.bind(y, x, y) == x"), listSizes), cel("greatest", "math.greatest([object.list.map(x, int(x)), [1]].flatten()) >= 0", listSizes), cel("least", "math.least(object.list.map(x, int(x))) >= 0", listSizes),

	// Conversions.
	cel("size", loop("size(object.texts) >= 0"), listSizes), cel("size of a text", "size(object.as) > 0 && size(object.greek) >= 0 && size(object.as) > 0 && size(object.greek) >= 0", textSizes),
	cel("type", loop("type(x) == int"), listSizes), cel("dyn", loop("dyn(x) == x"), listSizes),
	cel("bool", loop("bool('true')"), listSizes), cel("int", "int(object.digits) > 0", textSizes).failing("parsing"), cel("uint", "uint(object.digits) > 0u", textSizes).failing("parsing"),
	cel("double", "double(object.decimal) > 0.0", textSizes), cel("string", "string(bytes(object.greek)) != ''", textSizes), cel("string of a number", loop("string(x) != ''"), listSizes),
	cel("bytes", "bytes(object.as) != b''", textSizes), cel("duration", "duration(object.zeros) == duration('0s')", textSizes), cel("timestamp", "timestamp(object.digits) > timestamp('2020-01-01T00:00:00Z')", textSizes).failing("timestamp"),
	cel("timestamp of a text", loop("timestamp('2020-01-01T00:00:00Z') > timestamp('2019-01-01T00:00:00Z')"), listSizes),

	// Texts.
	cel("contains", "object.as.contains(object.asHalfB)", textSizes), cel("startsWith", "object.as.startsWith(object.asEnd)", textSizes), cel("endsWith", "object.as.endsWith(object.asEnd)", textSizes),
	cel("charAt", "object.greek.charAt(1) != ''", textSizes), cel("substring", "object.greek.substring(1) != ''", textSizes), cel("indexOf", "object.as.indexOf(object.asHalfB) < 0", textSizes),
	cel("indexOf, a short text", "object.as.indexOf('aaaaaaab') < 0", textSizes), cel("lastIndexOf", "object.as.lastIndexOf(object.asHalfB) < 0", textSizes), cel("indexOf, list", "object.list.indexOf(object.n) < 0", listSizes),
	cel("lastIndexOf, list", "object.longs.lastIndexOf(object.as) < 0", listSizes), cel("join", "object.texts.join(', ') != ''", listSizes), cel("join, long", "object.texts.join(object.as) != ''", squareSizes),
	cel("lowerAscii", "object.upper.lowerAscii() != ''", textSizes), cel("upperAscii", "object.as.upperAscii() != ''", textSizes), cel("replace", "object.as.replace('a', 'bb') != ''", textSizes),
	cel("replace with nothing", "object.as.replace('', 'b') != ''", textSizes), cel("replace once", "object.as.replace('a', object.asB, 1) != ''", textSizes),
	cel("split", "object.commas.split(',').size() > 0", textSizes), cel("split into characters", "object.greek.split('').size() > 0", textSizes), cel("trim", "object.spaces.trim() == ''", textSizes),
	cel("format", "'%s%s'.format([object.list, object.as]) != ''", listSizes), cel("format of maps", "'%s'.format([object.map]) != ''", listSizes), cel("format of digits", "object.precise.format([0.5]) != ''", squareSizes),
	cel("format of numbers", loop("'%d %x %.3f %e'.format([x, int(x), 0.5, 0.5]) != ''"), listSizes), cel("strings.quote", "strings.quote(object.quotes) != ''", textSizes), cel("reverse of a text", "object.list.reverse().size() > 0", listSizes),
	cel("jsonpatch.escapeKey", "jsonpatch.escapeKey(object.path) != ''", textSizes).in(env.Mutating),

	// Regular expressions.
	cel("matches", "object.as.matches(object.counted)", [3]int{100, 1_000, 3_000}), cel("matches, exact count", "object.as.matches(object.exact)", [3]int{100, 1_000, 3_000}),
	cel("matches, literal", "object.as.matches('a{0,200}b')", textSizes), cel("matches, words", "object.as.matches('(password|secret|token)')", textSizes), cel("matches, one pass", "object.as.matches('^[a-z]+$')", textSizes),
	cel("matches, classes", "'a'.matches(object.classes)", [3]int{10, 100, 600}), cel("matches, long expression", "'a'.matches(object.pattern)", squareSizes),
	cel("matches, Unicode", `object.greek.matches('[\\pL\\pN]{0,200}!')`, [3]int{100, 3_000, 10_000}), cel("matches, large program", "object.as.matches('(a{0,250}){0,4}b')", [3]int{100, 1_000, 3_000}), cel("matches, anything", "object.as.matches('(.*)(.*)(.*)(.*)(.*)(.*)(.*)b')", [3]int{100, 5_000, 200_000}),
	cel("matches, short", loop("'registry.example.com/team/app'.matches('^registry[.]example[.]com/[a-z0-9-]+/[a-z0-9-]+$')"), listSizes),
	cel("find", "object.as.find(object.counted) == ''", [3]int{100, 1_000, 3_000}), cel("find, literal", "object.as.find('[a-z]*b') == ''", textSizes),
	cel("findAll", "object.as.findAll(object.later).size() > 0", [3]int{100, 1_000, 3_000}), cel("findAll, counted", "object.as.findAll(object.laterMany).size() > 0", [3]int{30, 100, 300}),
	cel("findAll, literal", "object.as.findAll('a').size() > 0", textSizes), cel("findAll, word boundary", "object.as.findAll(object.boundary).size() > 0", squareSizes), cel("findAll, limit", "object.as.findAll(object.later, 2).size() > 0", textSizes),
	cel("regex.extract", "regex.extract(object.as, object.oneGroup).hasValue()", textSizes), cel("regex.extractAll", "regex.extractAll(object.as, object.later).size() > 0", [3]int{100, 1_000, 3_000}),
	cel("regex.extractAll, counted", "regex.extractAll(object.as, object.laterMany).size() > 0", [3]int{30, 100, 300}),
	cel("regex.replace", "regex.replace(object.as, object.later, 'c') != ''", [3]int{100, 1_000, 3_000}), cel("regex.replace, groups", "regex.replace(object.as, object.groups, 'c') != ''", [3]int{30, 100, 250}),
	cel("regex.replace, references", "regex.replace(object.as, '(a)', object.slashes) != ''", squareSizes),

	// Lists and sets.
	cel("includes", "object.list.includes(object.n) || true", listSizes), cel("includes, lists", "object.lists.includes(object.lists) || true", squareSizes), cel("distinct", "object.list.distinct().size() > 0", squareSizes), cel("distinct lists", "object.lists.distinct().size() > 0", squareSizes), cel("distinct texts", "object.longs.distinct().size() > 0", squareSizes), cel("flatten", "object.lists.flatten().size() > 0", listSizes),
	cel("first", loop("object.list.first().hasValue()"), listSizes), cel("last", loop("object.list.last().hasValue()"), listSizes), cel("reverse", "object.list.reverse().size() > 0", listSizes),
	cel("slice", "object.list.slice(0, object.list.size()).size() > 0", listSizes), cel("sort", "object.falling.map(x, int(x)).sort().size() > 0", listSizes), cel("sort texts", "object.longs.map(x, string(x)).sort().size() > 0", listSizes),
	cel("@sortByAssociatedKeys", "object.longs.sortBy(x, string(x)).size() > 0", listSizes), cel("lists.range", "lists.range(int(object.n)).size() > 0", listSizes),
	cel("isSorted", "object.list.map(x, int(x)).isSorted()", listSizes), cel("sum", "object.list.map(x, int(x)).sum() >= 0", listSizes), cel("min", "object.longs.map(x, string(x)).min() != ''", listSizes), cel("max", "object.longs.map(x, string(x)).max() != ''", listSizes),
	cel("sets.contains", "sets.contains(object.list, object.falling)", squareSizes), cel("sets.equivalent", "sets.equivalent(object.lists, object.listsEnd)", squareSizes), cel("sets.intersects", "sets.intersects(object.texts, object.longs)", squareSizes),

	// Numbers.
	cel("math.@max", loop("math.greatest(1, 2) == 2"), listSizes), cel("math.@min", loop("math.least(1, 2) == 1"), listSizes), cel("math.ceil", loop("math.ceil(0.5) == 1.0"), listSizes), cel("math.floor", loop("math.floor(0.5) == 0.0"), listSizes),
	cel("math.round", loop("math.round(0.5) == 1.0"), listSizes), cel("math.round, places", loop("math.round(0.555, 2) > 0.0"), listSizes), cel("math.trunc", loop("math.trunc(0.5) == 0.0"), listSizes), cel("math.abs", loop("math.abs(-1) == 1"), listSizes), cel("math.sign", loop("math.sign(-1) == -1"), listSizes),
	cel("math.isNaN", loop("!math.isNaN(0.5)"), listSizes), cel("math.isInf", loop("!math.isInf(0.5)"), listSizes), cel("math.isFinite", loop("math.isFinite(0.5)"), listSizes), cel("math.bitAnd", loop("math.bitAnd(1, 1) == 1"), listSizes), cel("math.bitOr", loop("math.bitOr(1, 1) == 1"), listSizes),
	cel("math.bitXor", loop("math.bitXor(1, 1) == 0"), listSizes), cel("math.bitNot", loop("math.bitNot(1) < 0"), listSizes), cel("math.bitShiftLeft", loop("math.bitShiftLeft(1, 1) == 2"), listSizes), cel("math.bitShiftRight", loop("math.bitShiftRight(1, 1) == 0"), listSizes), cel("math.sqrt", loop("math.sqrt(4) == 2.0"), listSizes),

	// Times.
	cel("getFullYear", loop("timestamp(0).getFullYear() == 1970"), listSizes), cel("getMonth", loop("timestamp(0).getMonth() == 0"), listSizes), cel("getDayOfYear", loop("timestamp(0).getDayOfYear() == 0"), listSizes), cel("getDayOfMonth", loop("timestamp(0).getDayOfMonth() == 0"), listSizes),
	cel("getDate", loop("timestamp(0).getDate() == 1"), listSizes), cel("getDayOfWeek", loop("timestamp(0).getDayOfWeek() == 4"), listSizes), cel("getHours", loop("timestamp(0).getHours() == 0"), listSizes), cel("getMinutes", loop("timestamp(0).getMinutes() == 0"), listSizes),
	cel("getSeconds", loop("timestamp(0).getSeconds() == 0"), listSizes), cel("getMilliseconds", loop("timestamp(0).getMilliseconds() == 0"), listSizes), cel("getHours of a zone", loop("timestamp(0).getHours('America/New_York') == 19"), squareSizes),
	cel("getHours of no zone", loop("timestamp(0).getHours('Nowhere/Nowhere') == 19 || true"), squareSizes),

	// Kubernetes.
	cel("url", "url(object.url).getScheme() == 'https'", textSizes), cel("isURL", "isURL(object.url)", textSizes), cel("getScheme", loop("url('https://a.b').getScheme() == 'https'"), listSizes), cel("getHost", loop("url('https://a.b').getHost() == 'a.b'"), listSizes),
	cel("getHostname", loop("url('https://a.b').getHostname() == 'a.b'"), listSizes), cel("getPort", loop("url('https://a.b').getPort() == ''"), listSizes), cel("getEscapedPath", "url(object.url).getEscapedPath() != ''", textSizes), cel("getQuery", "url(object.url).getQuery() != {}", textSizes),
	cel("getQuery, repeated", "[url(object.url)].all(u, object.list.all(x, u.getQuery() != {}))", squareSizes), cel("_==_ URLs", "[url(object.url)].all(u, object.list.all(x, u == u))", squareSizes),
	cel("quantity", "quantity(object.quantity).isInteger() || true", [3]int{10, 100, 1_000}), cel("isQuantity", "isQuantity(object.quantity) || true", [3]int{10, 100, 1_000}), cel("isQuantity, short", loop("isQuantity('5Mi')"), listSizes), cel("sign", loop("sign(quantity('5Mi')) > 0"), listSizes), cel("isInteger", loop("quantity('5e-100').isInteger() || true"), listSizes),
	cel("asInteger", loop("quantity('5Mi').asInteger() > 0"), listSizes), cel("asApproximateFloat", loop("quantity('5e100').asApproximateFloat() > 0.0"), listSizes),
	cel("add", "[quantity(object.quantity)].all(q, lists.range(100).all(x, q.add(q).isInteger() || true))", [3]int{10, 100, 1_000}), cel("add, exponents", loop("quantity('5e100').add(quantity('5e-100')).isInteger() || true"), listSizes), cel("sub", loop("quantity('5e100').sub(quantity('5e-100')).isInteger() || true"), listSizes),
	cel("isGreaterThan", loop("quantity('5e100').isGreaterThan(quantity('5e-100'))"), listSizes), cel("isLessThan", loop("!quantity('5e100').isLessThan(quantity('5e-100'))"), listSizes), cel("compareTo", loop("quantity('5e100').compareTo(quantity('5e-100')) > 0"), listSizes),
	cel("compareTo, long", "[quantity(object.quantity)].all(q, lists.range(100).all(x, q.compareTo(q) == 0))", [3]int{10, 100, 1_000}),
	cel("ip", loop("ip('2001:db8::68').family() == 6"), listSizes), cel("ip, long", "ip(object.address).family() == 4", textSizes).failing("IP Address"), cel("isIP", "isIP(object.address) || true", textSizes), cel("ip.isCanonical", loop("ip.isCanonical('2001:db8::68')"), listSizes), cel("family", loop("ip('10.0.0.1').family() == 4"), listSizes),
	cel("isUnspecified", loop("!ip('10.0.0.1').isUnspecified()"), listSizes), cel("isLoopback", loop("!ip('10.0.0.1').isLoopback()"), listSizes), cel("isLinkLocalMulticast", loop("!ip('10.0.0.1').isLinkLocalMulticast()"), listSizes),
	cel("isLinkLocalUnicast", loop("!ip('10.0.0.1').isLinkLocalUnicast()"), listSizes), cel("isGlobalUnicast", loop("ip('10.0.0.1').isGlobalUnicast()"), listSizes),
	cel("cidr", loop("cidr('10.0.0.0/8').prefixLength() == 8"), listSizes), cel("isCIDR", "isCIDR(object.address) || true", textSizes), cel("containsIP", loop("cidr('10.0.0.0/8').containsIP('10.0.0.1')"), listSizes), cel("containsCIDR", loop("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/9')"), listSizes),
	cel("masked", loop("cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8')"), listSizes), cel("prefixLength", loop("cidr('10.0.0.0/8').prefixLength() == 8"), listSizes),
	cel("semver", "semver(object.version).major() == 1", textSizes), cel("isSemver", "isSemver(object.version)", textSizes), cel("semver, short", loop("semver('1.2.3').major() == 1"), listSizes), cel("major", loop("semver('1.2.3').major() == 1"), listSizes), cel("minor", loop("semver('1.2.3').minor() == 2"), listSizes),
	cel("patch", loop("semver('1.2.3').patch() == 3"), listSizes), cel("compareTo, versions", "[semver(object.version)].all(v, object.list.all(x, v.compareTo(v) == 0))", squareSizes),
	cel("validate", "format.dns1123Subdomain().validate(object.name).hasValue() || true", textSizes), cel("validate, label", "format.labelValue().validate(object.as).hasValue() || true", textSizes), cel("validate, qualified", "format.qualifiedName().validate(object.as).hasValue() || true", textSizes),
	cel("validate, URI", "format.uri().validate(object.url).hasValue() || true", textSizes), cel("validate, byte", "format.byte().validate(object.base64).hasValue() || true", textSizes), cel("validate, UUID", "format.uuid().validate(object.as).hasValue() || true", textSizes),
	cel("validate, date", "format.date().validate(object.digits).hasValue() || true", textSizes), cel("validate, time", "format.datetime().validate(object.digits).hasValue() || true", textSizes), cel("format.named", loop("format.named('uri').hasValue()"), listSizes),
	cel("validate, short", loop("!format.dns1123Label().validate('team-a').hasValue()"), listSizes),
}, formats(),
	[]Row{
		cel("path", loop("authorizer.path('/healthz').check('get').allowed()"), singleSizes).in(env.Native), cel("check", loop("authorizer.group('').resource('pods').check('get').allowed()"), singleSizes).in(env.Native),
		cel("group", loop("authorizer.group('apps') != null"), singleSizes).in(env.Native), cel("serviceAccount", loop("authorizer.serviceAccount('a', 'b') != null"), singleSizes).in(env.Native), cel("resource", loop("authorizer.group('').resource('pods') != null"), singleSizes).in(env.Native),
		cel("subresource", loop("authorizer.group('').resource('pods').subresource('log') != null"), singleSizes).in(env.Native), cel("namespace", loop("authorizer.group('').resource('pods').namespace('a') != null"), singleSizes).in(env.Native),
		cel("name", loop("authorizer.group('').resource('pods').name('a') != null"), singleSizes).in(env.Native), cel("allowed", loop("authorizer.path('/healthz').check('get').allowed()"), singleSizes).in(env.Native), cel("errored", loop("!authorizer.path('/healthz').check('get').errored()"), singleSizes).in(env.Native),
		cel("error", loop("authorizer.path('/healthz').check('get').error() == ''"), singleSizes).in(env.Native), cel("reason", loop("authorizer.path('/healthz').check('get').reason() == ''"), singleSizes).in(env.Native),
		cel("fieldSelector", "authorizer.group('').resource('pods').fieldSelector(object.selector) != null", textSizes).in(env.Native), cel("labelSelector", "authorizer.group('').resource('pods').labelSelector(object.labels) != null", textSizes).in(env.Native),

		// Optional values.
		cel("optional.of", loop("optional.of(x).hasValue()"), listSizes), cel("optional.none", loop("!optional.none().hasValue()"), listSizes), cel("optional.ofNonZeroValue", loop("optional.ofNonZeroValue(object).hasValue()"), listSizes), cel("hasValue", loop("optional.of(x).hasValue()"), listSizes),
		cel("value", loop("optional.of(x).value() == x"), listSizes), cel("or", loop("optional.none().or(optional.of(x)).hasValue()"), listSizes), cel("orValue", loop("object.?none.orValue(true)"), listSizes), cel("optional.unwrap", "optional.unwrap(object.list.map(x, optional.of(x))).size() > 0", listSizes), cel("unwrapOpt", "object.list.map(x, optional.of(x)).unwrapOpt().size() > 0", listSizes),

		// Extensions.
		cel("base64.encode", "base64.encode(bytes(object.as)) != ''", textSizes), cel("base64.decode", "base64.decode(object.base64) != b''", textSizes),
	}, libraryRows)

// formats returns a row for each named format.
func formats() (out []Row) {
	for _, name := range []string{"dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"} {
		out = append(out, cel("format."+name, "format."+name+"().validate(object.as).hasValue() || true", textSizes))
	}
	return out
}
