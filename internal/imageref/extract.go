package imageref

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jsonpointer"
)

// The errors for an object that does not fit an extractor.
var (
	ErrConfig = errors.New("invalid image config")
	ErrKey    = errors.New("invalid key")
)

// defaultGroup is the group of an extractor without a name.
const defaultGroup = "custom"

// Extractor defines where a kind of resource holds images. Create it with NewExtractor.
type Extractor struct {
	path       []string
	value, key string
	group      string
	converted  bool
}

// Converter returns the image reference for the value that the extractor at that position found.
type Converter func(extractor int, found any) (string, error)

// NewExtractor returns an image extractor: path leads to objects (or, without value, to the images themselves), `*`
// stands for every element of a list or map, value and key are fields of the object, and name is the group. converted:
// values go through the Converter of Extract. The error means that the path is invalid.
func NewExtractor(path, value, key, name string, converted bool) (Extractor, error) {
	steps := strings.Split(strings.Trim(path, "/"), "/")
	if steps[0] == "" {
		return Extractor{}, fmt.Errorf("%w: the path is empty", ErrConfig)
	}
	if value == "" {
		last := len(steps) - 1
		value, steps = steps[last], steps[:last]
	}
	if name == "" {
		name = defaultGroup
	}
	for i, s := range steps {
		steps[i] = jsonpointer.Unescape(s)
	}
	return Extractor{path: steps, value: jsonpointer.Unescape(value), key: key, group: name, converted: converted}, nil
}

// Extract lists the images at the places that the extractors define. An absent or blank value is not an image. An object
// with another structure than an extractor expects is an error, since its images would be missed. convert may be nil if
// no extractor is converted.
func (d Defaults) Extract(extractors []Extractor, object map[string]any, convert Converter) ([]Image, error) {
	x := extraction{defaults: d, convert: convert}
	for i := range extractors {
		x.Extractor, x.index = &extractors[i], i
		if err := x.walk(object, x.path, "", ""); err != nil {
			return nil, err
		}
	}
	return x.out, nil
}

// extraction is the state of one Extractor while it reads an object.
type extraction struct {
	*Extractor
	index    int
	defaults Defaults
	convert  Converter
	out      []Image
}

// walk follows the path. pointer is the pointer of v; index consists of the steps that `*` took.
func (e *extraction) walk(v any, path []string, pointer, index string) error {
	if v == nil {
		return nil
	}
	if len(path) == 0 {
		return e.at(v, pointer, index)
	}
	step, rest := path[0], path[1:]
	switch v := v.(type) {
	case map[string]any:
		if step != "*" {
			return e.walk(v[step], rest, pointer+"/"+jsonpointer.Escape(step), index)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := e.walk(v[k], rest, pointer+"/"+jsonpointer.Escape(k), join(index, k)); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if step != "*" {
			break
		}
		for i, element := range v {
			at := strconv.Itoa(i)
			if err := e.walk(element, rest, pointer+"/"+at, join(index, at)); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%w: %s has no %s", ErrConfig, place(pointer), step)
}

// at reads the image of the object v; if the path ends in `*` without a value, v holds images under its keys.
func (e *extraction) at(v any, pointer, index string) error {
	if e.value == "*" {
		return e.every(v, pointer, index)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%w: %s is not an object", ErrConfig, place(pointer))
	}
	key := index
	if key == "" {
		key = "0"
	}
	if e.key != "" {
		if key, ok = object[e.key].(string); !ok {
			return ErrKey
		}
	}
	return e.add(object[e.value], pointer+"/"+jsonpointer.Escape(e.value), key)
}

func (e *extraction) every(v any, pointer, index string) error {
	switch v := v.(type) {
	case []any:
		for i, found := range v {
			at := strconv.Itoa(i)
			if err := e.add(found, pointer+"/"+at, join(index, at)); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := e.add(v[k], pointer+"/"+jsonpointer.Escape(k), join(index, k)); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%w: %s is not a list", ErrConfig, place(pointer))
}

func (e *extraction) add(found any, pointer, key string) error {
	text, ok := found.(string)
	switch {
	case found == nil || ok && Blank(text):
		return nil
	case e.converted:
		var err error
		if text, err = e.convert(e.index, found); err != nil {
			return fmt.Errorf("invalid jmespath at %s: %w", pointer, err)
		}
	case !ok:
		return fmt.Errorf("%w: %s is not a text", ErrConfig, pointer)
	}
	if Blank(text) {
		return nil
	}
	if len(e.out) == maxImages {
		return ErrTooMany
	}
	r, err := e.defaults.Parse(text)
	if err != nil {
		return unreadable(text, err)
	}
	e.out = append(e.out, Image{Reference: r, Group: e.group, Key: key, Pointer: pointer, Converted: e.converted})
	return nil
}

func join(index, step string) string {
	if index == "" {
		return step
	}
	return index + "/" + step
}

func place(pointer string) string {
	if pointer == "" {
		return "the object"
	}
	return pointer
}
