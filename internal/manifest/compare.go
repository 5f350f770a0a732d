package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// Ignored are fields in which an object may differ from the signed manifest.
type Ignored struct {
	// Objects select the objects; none select all.
	Objects []Object
	// Fields are paths such as spec.replicas or spec.ports.*.nodePort; a path includes all fields below it.
	Fields []string
}

// Object selects objects by wildcards; an empty field selects all.
type Object struct{ Group, Version, Kind, Namespace, Name string }

// Difference is a field that differs from the signed manifest.
type Difference struct {
	Key           string
	Before, After any // in the signed manifest, and now; nil for an absent field
}

// Bounds of a comparison. The comparison stops after a useful number of differences.
const (
	maxFields      = 50_000
	maxDifferences = 100
)

var errTooManyFields = fmt.Errorf("the resource has more than %d fields", maxFields)

// errOther reports that a signature is for another resource.
var errOther = errors.New("the signed manifest is not that of this resource")

// Compare returns the fields in which the object differs from its signed manifest, sorted. The error means that the message contains
// no manifest of the object. Call it only for claims with a verified signature.
func (c *Claim) Compare(object map[string]any, domain string, ignored []Ignored) ([]Difference, error) {
	signed, err := c.manifestOf(object)
	if err != nil {
		return nil, err
	}
	about := identify(object)
	d := differ{about: about, domain: domain}
	for i := range ignored {
		if ignored[i].selects(about) {
			d.ignored = append(d.ignored, ignored[i].Fields...)
		}
	}
	d.compare("", signed, object)
	if d.fields > maxFields && len(d.out) == 0 {
		return nil, errTooManyFields
	}
	return d.out, nil
}

// manifestOf returns the manifest of the object among the signed ones.
func (c *Claim) manifestOf(object map[string]any) (map[string]any, error) {
	files, err := c.files()
	if err != nil {
		return nil, err
	}
	want := identify(object)
	for _, file := range files {
		for docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file))); ; {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if len(bytes.TrimSpace(doc)) == 0 {
				continue
			}
			raw, err := yaml.YAMLToJSON(doc)
			if err != nil {
				return nil, fmt.Errorf("the message is not YAML: %w", err)
			}
			v, err := value.DecodeJSON(raw)
			if err != nil {
				return nil, fmt.Errorf("the message is not YAML: %w", err)
			}
			if m, ok := v.(map[string]any); ok && identify(m).stands(want) {
				return m, nil
			}
		}
	}
	return nil, errOther
}

func identify(object map[string]any) Object {
	var o Object
	o.Kind, _ = object["kind"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		o.Group, o.Version = group, version
	} else {
		o.Version = apiVersion
	}
	metadata, _ := object["metadata"].(map[string]any)
	o.Namespace, _ = metadata["namespace"].(string)
	o.Name, _ = metadata["name"].(string)
	return o
}

// stands reports whether o identifies the manifest of object: the same kind and name, and the same namespace or none.
func (o Object) stands(object Object) bool {
	return o.Kind == object.Kind && o.Group == object.Group && o.Name == object.Name && (o.Namespace == "" || o.Namespace == object.Namespace)
}

func (i *Ignored) selects(o Object) bool {
	if len(i.Objects) == 0 {
		return true
	}
	match := func(pattern, s string) bool { return pattern == "" || wildcard.Match(pattern, s) }
	return slices.ContainsFunc(i.Objects, func(p Object) bool {
		return match(p.Group, o.Group) && match(p.Version, o.Version) && match(p.Kind, o.Kind) && match(p.Namespace, o.Namespace) && match(p.Name, o.Name)
	})
}

// differ compares two values whose depth DecodeJSON has bounded.
type differ struct {
	about   Object
	domain  string
	ignored []string
	fields  int // fields seen so far
	out     []Difference
}

func (d *differ) compare(key string, signed, now any) {
	d.fields++
	if d.done() || key != "" && d.mayDiffer(key) {
		return
	}
	s, signedMap := signed.(map[string]any)
	n, nowMap := now.(map[string]any)
	if (signedMap || signed == nil) && (nowMap || now == nil) && len(s)+len(n) > 0 {
		for _, k := range union(s, n) {
			if d.done() {
				return
			}
			if s[k] == nil && d.derived(key, k, n) {
				continue
			}
			d.compare(join(key, k), s[k], n[k])
		}
		return
	}
	sl, signedList := signed.([]any)
	nl, nowList := now.([]any)
	if (signedList || signed == nil) && (nowList || now == nil) && len(sl)+len(nl) > 0 {
		for i := range max(len(sl), len(nl)) {
			if d.done() {
				return
			}
			if i >= len(sl) && d.injected(key, nl[i]) {
				continue
			}
			d.compare(join(key, strconv.Itoa(i)), at(sl, i), at(nl, i))
		}
		return
	}
	if value.Equal(signed, now) || signed == nil && d.isDefault(key, now) || sameQuantity(key, signed, now) {
		return
	}
	d.out = append(d.out, Difference{Key: key, Before: signed, After: now})
}

func (d *differ) done() bool { return d.fields > maxFields || len(d.out) == maxDifferences }

// mayDiffer reports whether a field is ignored: by the rule, or because the API server sets it.
func (d *differ) mayDiffer(key string) bool {
	for _, pattern := range d.ignored {
		if wildcard.Match(pattern, key) || wildcard.Match(pattern+".*", key) {
			return true
		}
	}
	if rest, ok := strings.CutPrefix(key, "metadata.annotations."+d.domain+"/"); ok {
		return ownAnnotation(rest)
	}
	return serverSets(d.about, key)
}

// ownAnnotation reports whether signing adds this annotation of the domain.
func ownAnnotation(name string) bool {
	name = strings.TrimRight(name, "0123456789")
	switch strings.TrimSuffix(name, "_") {
	case "message", "signature", "certificate", "bundle", "resourceBundleRef", "manifestImageRef":
		return true
	}
	return false
}

func union(a, b map[string]any) []string {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func join(key, step string) string {
	if key == "" {
		return step
	}
	return key + "." + step
}

// JSON returns differences in Kyverno's form: {"items":[{"key":…,"values":{"after":…,"before":…}}]}.
func JSON(differences []Difference) string {
	items := make([]any, len(differences))
	for i, d := range differences {
		items[i] = map[string]any{"key": d.Key, "values": map[string]any{"before": d.Before, "after": d.After}}
	}
	return value.JSON(map[string]any{"items": items})
}
