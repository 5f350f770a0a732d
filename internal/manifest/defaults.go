package manifest

import (
	"bufio"
	"bytes"
	_ "embed"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// defaultsText lists the changes that the API server makes to an object. A line is `Kind path` for a field that it sets,
// or `Kind path = JSON` for an absent field that it fills with that value. `Kind path = *` is a field that tools fill,
// too, each with its own value, and that grants no rights. The Kind `*` stands for every kind, PodSpec for the pod spec of
// every kind that has one. A `*` in a path stands for one step.
//
//go:embed defaults.txt
var defaultsText []byte

type defaultField struct {
	path  string
	value any  // the default value
	any   bool // every value counts as the default
	sets  bool
}

// defaultsByKind is computed when the first signed manifest is compared.
var defaultsByKind = sync.OnceValue(func() map[string][]defaultField {
	out := map[string][]defaultField{}
	for lines := bufio.NewScanner(bytes.NewReader(defaultsText)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		path, text, hasValue := strings.Cut(rest, " = ")
		f := defaultField{path: strings.TrimSpace(path), sets: !hasValue}
		if f.any = text == "*"; hasValue && !f.any {
			v, err := value.DecodeJSON([]byte(text))
			if err != nil {
				panic("manifest: defaults.txt: " + line) // a test parses the file
			}
			f.value = v
		}
		out[kind] = append(out[kind], f)
	}
	return out
})

// podSpecs are the paths of pod specs, by kind.
var podSpecs = map[string]string{
	"Pod": "spec.", "Deployment": "spec.template.spec.", "DaemonSet": "spec.template.spec.", "ReplicaSet": "spec.template.spec.",
	"StatefulSet": "spec.template.spec.", "ReplicationController": "spec.template.spec.", "Job": "spec.template.spec.",
	"CronJob": "spec.jobTemplate.spec.template.spec.",
}

// builtIn reports whether an API group belongs to Kubernetes: kinds of other groups are not in defaults.txt.
func builtIn(group string) bool {
	switch group {
	case "", "apps", "batch", "autoscaling", "policy":
		return true
	}
	return strings.HasSuffix(group, ".k8s.io")
}

// serverSets reports whether the API server sets the field, or one that contains it.
func serverSets(o Object, key string) bool {
	found := false
	eachDefault(o, key, func(f *defaultField, key string) bool {
		found = f.sets && (matches(f.path, key) || above(f.path, key))
		return found
	})
	return found
}

// isDefault reports whether the API server fills the absent field with the value.
func (d *differ) isDefault(key string, now any) bool {
	found := false
	eachDefault(d.about, key, func(f *defaultField, key string) bool {
		found = !f.sets && matches(f.path, key) && (f.any || value.Equal(f.value, now))
		return found
	})
	return found
}

// eachDefault calls visit for the lines that may match the field until one does.
func eachDefault(o Object, key string, visit func(f *defaultField, key string) bool) {
	all := defaultsByKind()
	look := func(kind, key string) bool {
		fields := all[kind]
		for i := range fields {
			if visit(&fields[i], key) {
				return true
			}
		}
		return false
	}
	if look("*", key) || !builtIn(o.Group) || look(o.Kind, key) {
		return
	}
	if prefix, ok := podSpecs[o.Kind]; ok {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			look("PodSpec", rest)
		}
	}
}

// matches compares a path with a key, step by step; keys of annotations and labels contain dots themselves.
func matches(path, key string) bool {
	if !strings.Contains(path, "*") {
		return path == key
	}
	return strings.Count(path, ".") == strings.Count(key, ".") && wildcard.Match(path, key)
}

// above reports whether the path is that of a parent of the field.
func above(path, key string) bool {
	if !strings.Contains(path, "*") {
		return strings.HasPrefix(key, path+".")
	}
	steps := strings.Count(path, ".") + 1
	for i, n := 0, 0; i < len(key); i++ {
		if key[i] == '.' {
			if n++; n == steps {
				return wildcard.Match(path, key[:i])
			}
		}
	}
	return false
}
