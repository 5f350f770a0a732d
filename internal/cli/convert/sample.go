package convert

import (
	"fmt"
	"maps"
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gvk "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// sampler generates resources of the kinds that a policy matches. They have the fields that the two policies read. The values come
// from the policy, or are close to those in the policy, and have the types that the API defines.
type sampler struct {
	random *rand.Rand
	kinds  []schema.Found
	// subresources are those that the classic rule names.
	subresources []subresource
	reads        *value.Fields
	words        []string
	numbers      []int64
	labels       []string // keys of labels and annotations
	aged         bool     // the policy reads the creation time of resources
	images       []string // image references, for policies that verify images
	fits         []fit    // what the filters of match select
	// namespace is that of a namespaced policy; empty for others.
	namespace string
	patches   bool // the policy changes resources, so list elements need distinct names, as in the API
}

func newSampler(p prover, original map[string]any, without []string, programs ...*policy.Program) *sampler {
	s := &sampler{random: rand.New(rand.NewSource(p.seed)), reads: &value.Fields{}} //nolint:gosec // the same resources each time
	classic := &value.Fields{}
	for i, program := range programs {
		s.namespace = program.Namespace
		for _, r := range program.Rules {
			switch {
			case r.Object == nil:
			case i == 0:
				classic.Merge(r.Object)
				s.reads.Merge(r.Object)
			default:
				s.reads.Merge(likewise(r.Object, classic, strings.Contains(value.JSON(original), "keys(")))
			}
			for _, t := range r.Targets {
				if i == 0 && t.Subresource != "" {
					s.addSubresource(p.known, t)
				}
				s.addKinds(p.known, t)
			}
		}
	}
	s.kinds = slices.DeleteFunc(s.kinds, func(k schema.Found) bool { return slices.Contains(without, k.Kind) })
	s.words, s.numbers = []string{"", "other", "default"}, []int64{0, 1}
	spec, _ := original["spec"].(map[string]any)
	s.patched(spec["rules"])
	s.fitting(spec)
	s.verified(spec["rules"])
	if rules, ok := spec["rules"]; ok {
		s.collect(rules)
	} else {
		s.collect(spec)
	}
	return s
}

// likewise returns the fields that the policy in CEL reads, without the members of what the classic policy reads as a whole and, if it reads the keys
// of maps, without the items of that.
func likewise(cel, classic *value.Fields, keys bool) *value.Fields {
	out := &value.Fields{}
	if cel == nil {
		return out
	}
	if cel.All() {
		out.ReadAll()
	}
	names := cel.Names()
	if classic != nil && classic.All() && len(classic.Names()) == 0 {
		names = nil
	}
	for _, name := range names {
		var below *value.Fields
		if classic != nil {
			below = classic.Get(name)
		}
		out.Member(name).Merge(likewise(cel.Get(name), below, keys))
	}
	if items := cel.ItemsRead(); items != nil && (!keys || classic == nil || classic.ItemsRead() != nil || !classic.All()) {
		var below *value.Fields
		if classic != nil {
			below = classic.ItemsRead()
		}
		out.Items().Merge(likewise(items, below, keys))
	}
	return out
}

// patched adds the fields that patches name, for objects and for the templates of Pods.
func (s *sampler) patched(rules any) {
	list, _ := rules.([]any)
	for _, r := range list {
		rule, _ := r.(map[string]any)
		mutate, _ := rule["mutate"].(map[string]any)
		if mutate == nil {
			continue
		}
		s.patches = true
		template := s.reads.Member("spec").Member("template")
		roots := []*value.Fields{s.reads, template, s.reads.Member("spec").Member("jobTemplate").Member("spec").Member("template")}
		blocks, _ := mutate["foreach"].([]any)
		for _, b := range append(blocks, mutate) {
			block, _ := b.(map[string]any)
			for _, root := range roots {
				patchFields(root, block["patchStrategicMerge"])
				operations, _ := block["patchesJson6902"].(string)
				for _, m := range pointers().FindAllStringSubmatch(operations, -1) {
					pointerFields(root, m[1])
				}
			}
		}
	}
}

// verified adds images of containers and volumes for rules that verify images: the images that the rule's patterns match, in all spellings, and other
// images.
func (s *sampler) verified(rules any) {
	list, _ := rules.([]any)
	patterns := []any{"*", "docker.io/*", "registry.example.com/*"}
	for _, r := range list {
		rule, _ := r.(map[string]any)
		entries, _ := rule["verifyImages"].([]any)
		if entries == nil {
			return
		}
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			for _, field := range []string{"imageReferences", "skipImageReferences"} {
				of, _ := entry[field].([]any)
				patterns = append(patterns, of...)
			}
			patterns = append(patterns, entry["image"])
		}
	}
	for _, p := range patterns {
		pattern, _ := p.(string)
		for _, fill := range []string{"app", "team/app"} {
			name := strings.Trim(instance(strings.TrimSpace(pattern), fill), "/:@")
			if at := strings.IndexByte(name, '@'); at >= 0 {
				name = name[:at]
			}
			slash := strings.LastIndexByte(name, '/')
			bare, _, tagged := strings.Cut(name[slash+1:], ":")
			if name == "" || bare == "" {
				continue
			}
			bare = name[:slash+1] + bare
			s.images = append(s.images, bare, bare+":v1", bare+":v1@"+digestOf(bare), bare+"@"+digestOf(bare))
			if tagged {
				s.images = append(s.images, name)
			}
			if host, path, ok := strings.Cut(bare, "/"); ok && imageref.IsRegistry(host) {
				s.images = append(s.images, strings.ToUpper(host)+"/"+path+":v1")
				if !strings.Contains(host, ":") {
					s.images = append(s.images, host+":0443/"+path)
				}
			}
		}
	}
	s.patches = true // containers need names
	for _, root := range []*value.Fields{s.reads, s.reads.Member("spec").Member("template"), s.reads.Member("spec").Member("jobTemplate").Member("spec").Member("template")} {
		for _, group := range []string{"containers", "initContainers", "ephemeralContainers"} {
			items := root.Member("spec").Member(group).Items()
			items.Member("name")
			items.Member("image")
		}
		volumes := root.Member("spec").Member("volumes").Items()
		volumes.Member("name")
		volumes.Member("image").Member("reference")
	}
}

// pointers matches the paths in JSON patches, in YAML and in JSON.
var pointers = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"?(?:path|from)"?:\s*"?(/[^"\s,}]*(?:\{\{[^}]*\}\}[^"\s,}]*)*)`)
})

// patchFields adds the fields of a patch. List elements get a name and, like containers, an image.
func patchFields(f *value.Fields, patch any) {
	switch v := patch.(type) {
	case map[string]any:
		for k, e := range v {
			name := strings.TrimSuffix(strings.TrimLeft(k, "(+<=^X"), ")")
			if strings.Contains(name, "{{") {
				continue
			}
			patchFields(f.Member(name), e)
		}
	case []any:
		for _, e := range v {
			items := f.Items()
			if _, ok := e.(map[string]any); ok {
				items.Member("name")
				items.Member("image")
			}
			patchFields(items, e)
		}
	}
}

// pointerFields adds the fields along a JSON pointer.
func pointerFields(f *value.Fields, pointer string) {
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case name == "-" || digits().MatchString(name) || strings.Contains(name, "{{"):
			f = f.Items()
			f.Member("name")
			f.Member("image")
		default:
			f = f.Member(jsonpointer.Unescape(name))
		}
	}
}

// addKinds adds the newest version of the kinds of a target.
func (s *sampler) addKinds(known *schema.Kinds, t policy.Target) {
	if t.Subresource != "" {
		return
	}
	group, version, kind := anyOf(t.Group), anyOf(t.Version), t.Kind
	if kind == "" || kind == "*" {
		if kind == "" {
			return // the targets of the classic policy name the kind
		}
		kind = "ConfigMap"
	}
	found := known.Find(group, version, kind, "")
	if len(found) == 0 && !wildcard.Has(kind) { // of a kind without a definition, only the fields that the policies read are known
		group, version = instanceOr(group, "example.com"), instanceOr(version, "v1")
		found = []schema.Found{{GroupVersionKind: gvk.GroupVersionKind{Group: group, Version: version, Kind: kind}, Type: schema.Any}}
	}
	for _, f := range found {
		i := slices.IndexFunc(s.kinds, func(k schema.Found) bool { return k.Group == f.Group && k.Kind == f.Kind })
		switch {
		case f.Group == "extensions": // other groups now contain its kinds
		case i < 0:
			s.kinds = append(s.kinds, f)
		case s.kinds[i].Version != "v1":
			s.kinds[i] = f
		}
	}
}

// instanceOr returns a text that a pattern matches: instead, if it matches everything.
func instanceOr(pattern, instead string) string {
	if pattern == "*" {
		return instead
	}
	return instance(pattern, "x")
}

func anyOf(part string) string {
	if part == "" {
		return "*"
	}
	return part
}

var (
	quoted     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("'([^']*)'|`([^`]*)`|\"([^\"]*)\"") })
	digits     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?[0-9]{1,15}$`) })
	measurable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+)([A-Za-z]{1,3})$`) })
)

// collect collects the words and numbers in a part of the policy.
func (s *sampler) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			switch k {
			case "labels", "annotations", "matchLabels", "=(labels)", "=(annotations)":
				m, _ := e.(map[string]any)
				for name := range m {
					name = strings.Trim(strings.TrimLeft(name, "=^X<+"), "()")
					s.labels = append(s.labels, instance(name, "x"))
				}
			case "message", "schedule":
				continue
			}
			s.collect(e)
		}
	case []any:
		for _, e := range v {
			s.collect(e)
		}
	case string:
		s.collectText(v)
	case int64:
		s.numbers = append(s.numbers, v-1, v, v+1)
	}
}

func (s *sampler) collectText(text string) {
	s.aged = s.aged || strings.Contains(text, "creationTimestamp")
	if strings.Contains(text, "request.object") || strings.Contains(text, "element.") || strings.Contains(text, "{{") {
		s.targetFields(text)
		for _, m := range quoted().FindAllStringSubmatch(text, -1) {
			s.addWord(m[1] + m[2] + m[3])
		}
		return
	}
	for _, alternative := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '&' }) {
		s.addWord(strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(alternative), "!<>= ")))
	}
}

func (s *sampler) addWord(w string) {
	if strings.Contains(w, "{{") || strings.Contains(w, "}}") {
		return
	}
	if n, err := strconv.ParseInt(w, 10, 64); err == nil && digits().MatchString(w) {
		s.numbers = append(s.numbers, n-1, n, n+1)
	}
	if m := measurable().FindStringSubmatch(w); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			s.words = append(s.words, fmt.Sprint(n+1)+m[2], fmt.Sprint(max(0, n-1))+m[2])
		}
	}
	for _, fill := range []string{"", "x"} {
		if one := instance(w, fill); !slices.Contains(s.words, one) {
			s.words = append(s.words, one)
		}
	}
}

// instance returns a text that the wildcard pattern matches.
func instance(pattern, fill string) string {
	return strings.NewReplacer("*", fill, "?", "q").Replace(pattern)
}

// objects generates n resources.
func (s *sampler) objects(n int) []map[string]any {
	if len(s.kinds)+len(s.subresources) == 0 {
		return nil
	}
	slices.SortFunc(s.kinds, func(a, b schema.Found) int { return strings.Compare(a.String(), b.String()) })
	slices.Sort(s.words)
	slices.Sort(s.numbers)
	slices.Sort(s.labels)
	s.labels = slices.Compact(s.labels)
	out := make([]map[string]any, n)
	for i := range out {
		var k schema.Found
		if sub := s.subresourceAt(i); sub != nil {
			k = sub.object
		} else {
			k = s.kinds[i%(len(s.kinds)+len(s.subresources))]
		}
		o, _ := s.value(k.Type, s.reads, 0).(map[string]any)
		if o == nil {
			o = map[string]any{}
		}
		o["apiVersion"], o["kind"] = k.GroupVersion().String(), k.Kind
		metadata := s.metadata(o["metadata"], i)
		if kinds.ClusterScoped(k.GroupVersion().String(), k.Kind) {
			delete(metadata, "namespace")
		}
		o["metadata"] = metadata
		out[i] = o
	}
	return out
}

// subresourceAt returns the subresource of the i-th object; nil if it is an object of its own.
func (s *sampler) subresourceAt(i int) *subresource {
	if n := i%max(1, len(s.kinds)+len(s.subresources)) - len(s.kinds); n >= 0 && n < len(s.subresources) {
		return &s.subresources[n]
	}
	return nil
}

func (s *sampler) metadata(made any, i int) map[string]any {
	m, _ := made.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m["name"], m["namespace"] = "sample-"+strconv.Itoa(i), s.word("default")
	if s.namespace != "" && s.often(0.9) {
		m["namespace"] = s.namespace
	}
	if s.often(0.3) {
		m["name"] = s.word("sample")
	}
	if n := len(s.fits); n > 0 && i%3 == 0 {
		s.fits[i/3%n].set(m)
		defer s.fits[i/3%n].mark(m)
	}
	if s.aged && s.often(0.9) { // a time in the last four days
		m["creationTimestamp"] = offline.Now().UTC().Add(-time.Duration(s.random.Intn(96*60)) * time.Minute).Truncate(time.Hour).Format(time.RFC3339)
	}
	for _, of := range []string{"labels", "annotations"} {
		delete(m, of)
		set := map[string]any{}
		for _, key := range s.labels {
			if s.often(0.5) {
				set[key] = s.word("")
			}
		}
		if len(set) > 0 || s.often(0.3) {
			m[of] = set
		}
	}
	return m
}

// fit is the metadata that a filter of match selects, as far as it names them.
type fit struct {
	name, namespace     string
	labels, annotations map[string]any
}

// fitting collects what the filters of match select: in random resources, a name and a namespace rarely come together.
func (s *sampler) fitting(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.fitting(e)
		}
	case map[string]any:
		for k, e := range v {
			if match, ok := e.(map[string]any); ok && k == "match" {
				s.fitOf(match["resources"])
				for _, group := range []string{"any", "all"} {
					filters, _ := match[group].([]any)
					for _, f := range filters {
						filter, _ := f.(map[string]any)
						s.fitOf(filter["resources"])
					}
				}
				continue
			}
			s.fitting(e)
		}
	}
}

func (s *sampler) fitOf(resources any) {
	r, _ := resources.(map[string]any)
	first := func(field string) string {
		list, _ := r[field].([]any)
		if len(list) == 0 {
			return ""
		}
		if text, _ := list[0].(string); !strings.Contains(text, "{{") {
			return instance(text, "x")
		}
		return ""
	}
	selector, _ := r["selector"].(map[string]any)
	f := fit{name: first("names"), namespace: first("namespaces"), labels: map[string]any{}, annotations: map[string]any{}}
	if name, _ := r["name"].(string); name != "" {
		f.name = instance(name, "x")
	}
	fill := func(into map[string]any, from any) {
		m, _ := from.(map[string]any)
		for k, v := range m {
			text, _ := v.(string)
			into[instance(k, "x")] = instance(text, "x")
		}
	}
	fill(f.labels, selector["matchLabels"])
	fill(f.annotations, r["annotations"])
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		key, _ := expression["key"].(string)
		values, _ := expression["values"].([]any)
		switch {
		case expression["operator"] == "In" && len(values) > 0:
			f.labels[key] = values[0]
		case expression["operator"] == "Exists":
			f.labels[key] = "x"
		}
	}
	if f.name != "" || f.namespace != "" || len(f.labels)+len(f.annotations) > 0 {
		s.fits = append(s.fits, f)
	}
}

// set sets the name and the namespace of metadata.
func (f *fit) set(m map[string]any) {
	if f.name != "" {
		m["name"] = f.name
	}
	if f.namespace != "" {
		m["namespace"] = f.namespace
	}
}

// mark sets the labels and annotations of metadata.
func (f *fit) mark(m map[string]any) {
	for field, more := range map[string]map[string]any{"labels": f.labels, "annotations": f.annotations} {
		if len(more) == 0 {
			continue
		}
		all, _ := m[field].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, more)
		m[field] = all
	}
}

func (s *sampler) often(p float64) bool { return s.random.Float64() < p }

// word returns a random word. If the word is empty, it returns instead.
func (s *sampler) word(instead string) string {
	if w := s.words[s.random.Intn(len(s.words))]; w != "" {
		return w
	}
	return instead
}

// always are the members that every object of the API has that may have them.
var always = []string{"spec", "template", "jobTemplate", "metadata", "containers"}

// value generates a value of the type with the fields that the policies read, or nil if there is none.
func (s *sampler) value(t schema.Type, f *value.Fields, depth int) any {
	if depth > 24 {
		return nil
	}
	if element, ok := t.Element(); ok && t != schema.Any {
		items := f.ItemsRead()
		if items == nil {
			items = &value.Fields{}
		}
		list := make([]any, 0, 3)
		for range s.random.Intn(4) {
			if v := s.value(element, items, depth+1); v != nil {
				list = append(list, v)
			}
		}
		if _, named := element.Field("name"); named && s.patches {
			s.name(list)
		}
		return list
	}
	names := f.Names()
	if len(names) > 0 && schema.Scalar(t) == "" {
		out := map[string]any{}
		for _, name := range names {
			below, ok := t.Field(name)
			if !ok || !slices.Contains(always, name) && !s.often(0.7) {
				continue
			}
			v := s.value(below, f.Get(name), depth+1)
			if _, list := v.([]any); list && depth == 0 && (name == "spec" || name == "status") { // of a kind without a definition
				v = map[string]any{}
			}
			for range 8 { // the API server refuses Pods without containers
				if list, ok := v.([]any); !ok || name != "containers" || len(list) > 0 {
					break
				}
				v = s.value(below, f.Get(name), depth+1)
			}
			if _, text := v.(string); text && (name == "image" || name == "reference") && len(s.images) > 0 {
				v = s.images[s.random.Intn(len(s.images))]
			}
			if v != nil {
				out[name] = v
			}
		}
		return out
	}
	if f.ItemsRead() != nil && t == schema.Any {
		list := make([]any, 0, 2)
		for range 1 + s.random.Intn(2) {
			if v := s.value(schema.Any, f.ItemsRead(), depth+1); v != nil {
				list = append(list, v)
			}
		}
		return list
	}
	switch {
	case schema.Scalar(t) != "" || t == schema.Any:
		return s.scalar(schema.Scalar(t))
	case len(t.Names()) > 0:
		return map[string]any{}
	}
	if element, ok := t.Field("x"); ok { // a map with arbitrary keys
		out := map[string]any{}
		for range s.random.Intn(3) {
			if v := s.value(element, &value.Fields{}, depth+1); v != nil {
				out[s.word("key")] = v
			}
		}
		return out
	}
	return nil
}

// name gives the elements of a list distinct names.
func (s *sampler) name(list []any) {
	seen := map[string]bool{}
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		name := s.word("main")
		for ; seen[name]; name += strconv.Itoa(i) {
		}
		seen[name], m["name"] = true, name
	}
}

// scalar generates a value of the scalar type with that name.
func (s *sampler) scalar(name string) any {
	switch name {
	case "boolean":
		return s.often(0.5)
	case "integer", "number":
		return float64(s.numbers[s.random.Intn(len(s.numbers))]) // the command line decodes numbers as float64
	case "string":
		return s.words[s.random.Intn(len(s.words))]
	}
	if s.often(0.3) {
		return float64(s.numbers[s.random.Intn(len(s.numbers))])
	}
	return s.words[s.random.Intn(len(s.words))]
}
