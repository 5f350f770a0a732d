package convert

import (
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/convert"
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
	labels       []string            // keys of labels and annotations
	wanted       map[string][]string // the texts with which filters compare fields, by the names of the fields
	aged         bool                // the policy reads the creation time of resources
	timed        bool                // the policy reads other times
	images       []string            // image references, for policies that verify images
	references   []string            // the fields that hold them
	fits         []fit               // what the filters of match select
	// namespace is that of a namespaced policy; empty for others.
	namespace string
	parses    bool // the policy reads the parts of image references
	patches   bool // the policy changes resources, so list elements need distinct names, as in the API
	// scalars are the types of the numbers and truth values in patches, by the names of their fields: of a kind without a definition, nothing else says
	// that a field is no text.
	scalars map[string]string
}

func newSampler(p prover, original map[string]any, rule convert.Rule, first *policy.Program, cel []*policy.Program) *sampler {
	s := &sampler{random: rand.New(rand.NewSource(p.seed)), reads: &value.Fields{}, references: []string{"image", "reference"}} //nolint:gosec // the same resources each time
	classic := &value.Fields{}
	exact := strings.Contains(value.JSON(original["spec"]), `"podSecurity"`) // the classic rule reads the whole Pod
	for i, program := range append([]*policy.Program{first}, cel...) {
		s.namespace = program.Namespace
		for _, r := range program.Rules {
			switch {
			case r.Object == nil:
			case i == 0:
				classic.Merge(r.Object)
				s.reads.Merge(r.Object)
			case exact:
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
	s.variables(original["spec"])
	s.kinds = slices.DeleteFunc(s.kinds, func(k schema.Found) bool { return slices.Contains(rule.Uncovered, k.Kind) })
	s.words, s.numbers = []string{"", "other", "default"}, []int64{0, 1}
	spec, _ := original["spec"].(map[string]any)
	source := value.JSON(spec)
	s.parses = strings.Contains(source, "images.") || strings.Contains(source, `"imageRegistry"`)
	s.patched(spec["rules"])
	s.fitting(spec)
	s.verified(spec["rules"])
	s.extracted(original)
	s.listed(spec["rules"])
	if rules, ok := spec["rules"]; ok {
		s.collect(rules)
	} else {
		s.collect(spec)
	}
	s.collect(spec["webhookConfiguration"])
	if exact { // the values are in the new policy only
		converted, _ := rule.Policy["spec"].(map[string]any)
		s.collectExpressions(converted["validations"])
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

// objects generates n resources.
func (s *sampler) objects(n int) []map[string]any {
	if len(s.kinds)+len(s.subresources) == 0 {
		return nil
	}
	if s.timed {
		for _, before := range []time.Duration{-time.Hour, time.Hour, 50 * time.Hour, 400 * time.Hour} {
			s.words = append(s.words, offline.Now().UTC().Add(-before).Truncate(time.Hour).Format(time.RFC3339))
		}
	}
	for _, of := range []string{"labels", "annotations"} {
		s.labels = append(s.labels, s.reads.Member("metadata").Member(of).Names()...)
	}
	slices.SortFunc(s.kinds, func(a, b schema.Found) int { return strings.Compare(a.String(), b.String()) })
	slices.Sort(s.words)
	slices.Sort(s.numbers)
	if len(s.labels) == 0 && (s.reads.Member("metadata").Member("labels").All() || s.reads.Member("metadata").Member("annotations").All()) { // the policy reads all of them
		s.labels = slices.Clone(s.words[:min(3, len(s.words))])
		s.labels = slices.DeleteFunc(append(s.labels, "example.com/one"), func(w string) bool { return w == "" })
	}
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
	if len(validation.IsDNS1123Label(m["namespace"].(string))) > 0 {
		m["namespace"] = []string{"default", "elsewhere"}[i/max(1, len(s.kinds)+len(s.subresources))%2] // of each kind, some
	}
	if s.namespace != "" && s.often(0.9) {
		m["namespace"] = s.namespace
	}
	if s.often(0.3) {
		m["name"] = s.word("sample")
	}
	if wanted := s.wanted["namespace"]; len(wanted) > 0 && s.often(0.3) { // a condition of the policy compares it
		m["namespace"] = wanted[s.random.Intn(len(wanted))]
	}
	if n := len(s.fits); n > 0 && s.often(0.4) {
		f := &s.fits[s.random.Intn(n)]
		f.set(m)
		defer f.mark(m)
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
				if wanted := s.wanted[key]; len(wanted) > 0 && s.often(0.5) {
					set[key] = wanted[s.random.Intn(len(wanted))]
				}
			}
		}
		if len(set) > 0 || s.often(0.3) {
			m[of] = set
		}
	}
	return m
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
var always = []string{"spec", "template", "jobTemplate", "metadata", "containers", "image", "schedule"}

// typed are the members whose member `type` the API requires.
var typed = []string{"seccompProfile", "appArmorProfile"}

// quantified are the members whose values the API declares as quantities.
var quantified = []string{"requests", "limits", "hard", "min", "max", "default", "defaultRequest", "capacity"}

// quantities replaces the texts in a map that are no quantities, which the API server would refuse.
func (s *sampler) quantities(amounts map[string]any) {
	valid := slices.DeleteFunc(slices.Clone(s.words), func(w string) bool { _, err := resource.ParseQuantity(w); return err != nil })
	valid = append(valid, "100m", "1", "128Mi", "2Gi")
	for name, v := range amounts {
		text, isText := v.(string)
		if _, err := resource.ParseQuantity(text); isText && err != nil {
			amounts[name] = valid[s.random.Intn(len(valid))]
		}
	}
}

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
		for _, key := range identifying {
			if _, has := element.Field(key); has && s.patches && t != schema.Any {
				s.name(list, key)
			}
		}
		if _, has := element.Field("protocol"); has && s.patches {
			s.ports(list, element)
		}
		if _, has := element.Field("whenUnsatisfiable"); has && s.patches {
			for _, e := range list {
				if m, ok := e.(map[string]any); ok {
					m["whenUnsatisfiable"] = []string{"DoNotSchedule", "ScheduleAnyway"}[s.random.Intn(2)]
				}
			}
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
			if scalar := s.scalars[name]; scalar != "" && below == schema.Any {
				v = s.scalar(scalar)
			}
			if m, isMap := v.(map[string]any); isMap && m["type"] == nil && slices.Contains(typed, name) {
				m["type"] = s.word("Localhost")
			}
			if _, list := v.([]any); list && depth == 0 && (name == "spec" || name == "status") { // of a kind without a definition
				v = map[string]any{}
			}
			for range 8 { // the API server refuses Pods without containers
				if list, ok := v.([]any); !ok || name != "containers" || len(list) > 0 {
					break
				}
				v = s.value(below, f.Get(name), depth+1)
			}
			if _, text := v.(string); text && len(s.wanted[name]) > 0 && s.often(0.6) {
				v = s.wanted[name][s.random.Intn(len(s.wanted[name]))]
			}
			if _, text := v.(string); text && slices.Contains(s.references, name) && len(s.images) > 0 {
				v = s.images[s.random.Intn(len(s.images))]
			}
			if text, is := v.(string); is && name == "image" && s.parses {
				if r, err := parsed(text); err != nil || len(r.Path) < 2 { // the API server admits it, and no registry has it
					v = "nginx"
				}
			}
			if amounts, isMap := v.(map[string]any); isMap && slices.Contains(quantified, name) && t != schema.Any {
				s.quantities(amounts)
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
			v := s.value(schema.Any, f.ItemsRead(), depth+1)
			if _, nested := v.([]any); nested { // no list of the API has lists as elements
				v = s.scalar("")
			}
			if v != nil {
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

// identifying are the members by which lists of the API identify their elements, and that the API requires.
var identifying = []string{"name", "mountPath", "devicePath", "topologyKey", "ip", "uid"}

// name gives the elements of a list distinct names.
func (s *sampler) name(list []any, key string) {
	seen := map[string]bool{}
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		name := s.word("main")
		for ; seen[name]; name += strconv.Itoa(i) {
		}
		seen[name], m[key] = true, name
	}
}

// ports gives the ports of a container or a Service what the API requires and defaults: distinct numbers, and a protocol.
func (s *sampler) ports(list []any, element schema.Type) {
	for _, key := range []string{"containerPort", "port"} {
		if t, has := element.Field(key); !has || schema.Scalar(t) != "integer" {
			continue
		}
		seen := map[int64]bool{}
		for _, e := range list {
			m, ok := e.(map[string]any)
			if !ok {
				continue
			}
			n := max(1, s.numbers[s.random.Intn(len(s.numbers))])
			for ; seen[n]; n++ {
			}
			seen[n], m[key], m["protocol"] = true, float64(n), []string{"TCP", "TCP", "UDP"}[s.random.Intn(3)]
		}
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
	if s.often(0.3) && len(s.numbers) > 2 { // without numbers in the policy, the fields of a kind without a definition are texts
		return float64(s.numbers[s.random.Intn(len(s.numbers))])
	}
	return s.words[s.random.Intn(len(s.words))]
}
