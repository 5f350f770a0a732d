package strict

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// structInfo holds the fields of a struct type by JSON name, including those of embedded structs.
type structInfo struct {
	fields map[string][]int
	names  []string
	nulls  map[string]bool // pointers that distinguish a null from an absent field: those with the tag null:"value"
}

var structInfos sync.Map // reflect.Type → *structInfo

func structInfoOf(t reflect.Type) *structInfo {
	if i, ok := structInfos.Load(t); ok {
		return i.(*structInfo)
	}
	info := &structInfo{fields: map[string][]int{}, nulls: map[string]bool{}}
	info.collect(t, nil)
	for name := range info.fields {
		info.names = append(info.names, name)
	}
	slices.Sort(info.names)
	structInfos.Store(t, info)
	return info
}

func (s *structInfo) collect(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		// API types only embed structs by value; decoding would have to allocate a pointer.
		if f.Type.Kind() == reflect.Struct && (strings.Contains(options, "inline") || f.Anonymous && name == "") {
			s.collect(f.Type, index)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, taken := s.fields[name]; !taken {
			s.fields[name] = index
			s.nulls[name] = f.Tag.Get("null") == "value" && f.Type.Kind() == reflect.Pointer
		}
	}
}
