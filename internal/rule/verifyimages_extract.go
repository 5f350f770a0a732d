package rule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/scope"
)

// extractors are the imageExtractors of a rule, by kind.
type extractors map[string]*kindExtractors

type kindExtractors struct {
	list    []imageref.Extractor
	convert []*jmespath.Expr // by index in list; nil without a jmesPath
}

var errNotText = errors.New("the result is no text")

// extractors compiles imageExtractors.
func (c *compiler) extractors(r *kyvernov1.Rule) extractors {
	if len(r.ImageExtractors) == 0 {
		return nil
	}
	mutates := slices.ContainsFunc(r.VerifyImages, func(e kyvernov1.ImageVerification) bool { return on(e.MutateDigest) })
	out := extractors{}
	for _, kind := range slices.Sorted(maps.Keys(r.ImageExtractors)) {
		k := &kindExtractors{}
		for i, x := range r.ImageExtractors[kind] {
			path := c.in.Path + ".imageExtractors." + kind + "[" + strconv.Itoa(i) + "]"
			e, err := imageref.NewExtractor(x.Path, x.Value, x.Key, x.Name, x.JMESPath != "")
			if err != nil {
				c.diags.Errorf(path+".path", "%v", err)
				continue
			}
			var convert *jmespath.Expr
			if x.JMESPath != "" {
				if mutates {
					c.diags.Errorf(path+".jmesPath", "jmespath may not be used in an image extractor when mutating digests with verify images")
					c.diags.Hint("set mutateDigest to false: a digest can only be written where the reference itself stands")
				}
				if convert, err = jmespath.CompileWithin(c.in.Allowance, x.JMESPath, jmespath.Quoting{}); err != nil {
					c.diags.Errorf(path+".jmesPath", "invalid jmespath %s: %v", x.JMESPath, err)
					c.diags.Hint("correct the expression; `ephor jp query` tries it")
					continue
				}
			}
			k.list = append(k.list, e)
			k.convert = append(k.convert, convert)
		}
		out[kind] = k
	}
	return out
}

// images returns the images of the request's object. Extractors of a rule replace the built-in extractors for the kind.
func (x extractors) images(s *scope.Scope) ([]imageref.Image, error) {
	k := x[s.Request.GVK.Kind]
	if k == nil {
		return s.Request.ImageList()
	}
	object, err := s.Request.Subject()
	if err != nil {
		return nil, err
	}
	return k.images(s.QueryEnv(), object)
}

// of returns the images of an object of the kind.
func (x extractors) of(env *jmespath.Env, kind string, object map[string]any) ([]imageref.Image, error) {
	if k := x[kind]; k != nil {
		return k.images(env, object)
	}
	return env.Images.Find(kind, object)
}

func (k *kindExtractors) images(env *jmespath.Env, object map[string]any) ([]imageref.Image, error) {
	return env.Images.Extract(k.list, object, func(i int, found any) (string, error) {
		v, err := k.convert[i].Search(env, found)
		if err != nil {
			return "", err
		}
		text, ok := v.(string)
		if !ok {
			return "", fmt.Errorf("%w: %s", errNotText, textOf(v))
		}
		return text, nil
	})
}

func textOf(v any) string {
	if v == nil {
		return "null"
	}
	return text(v)
}
