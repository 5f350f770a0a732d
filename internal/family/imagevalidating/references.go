package imagevalidating

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
)

// references are compiled matchImageReferences. An image is selected if one of them matches; if there are none, all images are selected.
type references struct {
	all         bool
	globs       []glob
	expressions celrule.Conditions
	named       *run.Variables
}

// glob is a compiled pattern.
type glob struct {
	*regexp.Regexp
	size compilecost.Regular
}

// maxGlob is the maximum length of a pattern. Every image is compared with every pattern.
const maxGlob = 1024

// textNoReference is Kyverno's, verbatim.
const textNoReference = "either glob or expression must be set"

// compileReferences compiles matchImageReferences and adds the mistakes to those of c. The only variable of the expressions is ref, the
// image.
func compileReferences(c *celrule.Compiler, in []policiesv1beta1.MatchImageReference, path string, a *compilecost.Allowance) *references {
	out := &references{all: len(in) == 0}
	own := celrule.New(env.Declarations{Kind: env.ImageReferences}, a)
	for i, r := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case r.Glob == "" && r.Expression == "":
			c.Diags.Invalid(at, "", textNoReference)
		case r.Expression != "":
			out.expressions = append(out.expressions, own.Expression(r.Expression, at+".expression", typecheck.Bool))
		case len(r.Glob) > maxGlob:
			c.Diags.TooLong(at+".glob", maxGlob)
		default:
			if _, err := compileGlob(r.Glob, nil); err != nil {
				c.Diags.Invalid(at+".glob", r.Glob, err.Error())
				continue
			}
			for _, form := range imageref.Patterns(r.Glob, `*?[{\`) {
				glob, err := compileGlob(form, a)
				if over := (*compilecost.Error)(nil); errors.As(err, &over) {
					c.Diags.Errorf(at+".glob", "%v", err)
					break
				}
				if err == nil {
					out.globs = append(out.globs, glob)
				}
			}
		}
	}
	c.Diags.Add(own.Diags...)
	out.named = own.Named()
	return out
}

// selects reports whether the policy selects an image reference, in whatever way it is written. An image that cannot be parsed, and is not
// selected as written, is an error: nothing shows that the policy does not select it.
func (r *references) selects(ctx context.Context, m *budget.Meter, defaults imageref.Defaults, image string) (bool, error) {
	if r.all {
		return true, nil
	}
	if ok, err := r.selectsTexts(ctx, m, []string{image}, []string{image}); ok || err != nil {
		return ok, err
	}
	reference, err := defaults.Parse(image)
	if err != nil {
		return false, err
	}
	// Expressions read the canonical form, with the tag latest only if it is written, and with it. They may negate, so they do not read
	// the other spellings: each of them could select an image that the author excludes.
	canonical := defaults.Canonical(reference)
	texts := []string{canonical.String()}
	if written := strings.TrimSuffix(texts[0], ":latest"); canonical.Digest == "" && written != texts[0] && !strings.HasSuffix(image, ":latest") {
		texts = append(texts, written)
	}
	return r.selectsTexts(ctx, m, defaults.Spellings(reference), slices.DeleteFunc(texts, func(text string) bool { return text == image }))
}

// exempts reports whether the patterns of exceptions name an image: as it is written, or with its registry. No other spelling exempts it. For an
// image with a digest only the repository and the digest count: otherwise a user could write an exempt tag before the digest of another image.
func exempts(patterns []string, defaults imageref.Defaults, image string) bool {
	if len(patterns) == 0 {
		return false
	}
	r, err := defaults.Parse(image)
	if err != nil {
		return false
	}
	return r.Digest == "" && wildcard.MatchAny(patterns, image) || wildcard.MatchAny(patterns, r.Pinned()) || slices.Contains(patterns, image)
}

// selectsTexts reports whether a glob matches one of the texts, or an expression holds for one of refs.
func (r *references) selectsTexts(ctx context.Context, m *budget.Meter, texts, refs []string) (bool, error) {
	for _, text := range texts {
		for _, glob := range r.globs {
			if err := m.Step(int(glob.size.Search(len(text), false))); err != nil {
				return false, err
			}
			if glob.MatchString(text) {
				return true, nil
			}
		}
	}
	for _, ref := range refs {
		for _, x := range r.expressions {
			ok, err := celrule.Conditions{x}.Hold(ctx, m, r.named, &run.Input{Reference: ref})
			if err != nil || ok {
				return ok, err
			}
		}
	}
	return false, nil
}

// compileGlob compiles a glob: * and ** match any text, ? matches one character, […] matches one of several characters, and {a,b} one of
// several patterns. A backslash escapes the next character. The allowance is charged.
func compileGlob(text string, a *compilecost.Allowance) (glob, error) {
	var out strings.Builder
	out.WriteString(`(?s)^`)
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '*':
			out.WriteString(`.*`)
		case '?':
			out.WriteString(`.`)
		case '[':
			end := strings.IndexByte(text[i+1:], ']')
			if end <= 0 {
				return glob{}, fmt.Errorf("a bracket is not closed: %s", text[i:])
			}
			class := text[i+1 : i+1+end]
			not := ""
			if class[0] == '!' || class[0] == '^' {
				not, class = "^", class[1:]
			}
			if class == "" {
				return glob{}, fmt.Errorf("a bracket names no character: %s", text[i:])
			}
			out.WriteString("[" + not + strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`, `&`, `\&`).Replace(class) + "]")
			i += end + 1
		case '{':
			open++
			out.WriteString(`(?:`)
		case '}':
			if open == 0 {
				out.WriteString(`\}`)
				continue
			}
			open--
			out.WriteString(`)`)
		case ',':
			if open > 0 {
				out.WriteString(`|`)
				continue
			}
			out.WriteString(`,`)
		case '\\':
			if i++; i == len(text) {
				return glob{}, errors.New("nothing follows the backslash at the end")
			}
			out.WriteString(regexp.QuoteMeta(text[i : i+1]))
		default:
			out.WriteString(regexp.QuoteMeta(text[i : i+1]))
		}
	}
	if open > 0 {
		return glob{}, fmt.Errorf("a brace is not closed: %s", text)
	}
	size, err := compilecost.Regex(out.String() + `$`)
	if err != nil {
		return glob{}, err
	}
	if err := a.Charge(size.Cost); err != nil {
		return glob{}, err
	}
	re, err := regexp.Compile(out.String() + `$`)
	return glob{re, size}, err
}
