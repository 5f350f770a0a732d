package dashboard

import (
	"errors"
	"net/http"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

// maxMistakes is the maximum number of listed mistakes in policies.
const maxMistakes = 50

// mistaken is the error for policies with mistakes.
type mistaken struct {
	summary  string
	mistakes []string
}

func (m mistaken) Error() string { return m.summary }

// policySet holds the policies that a client sent.
type policySet struct {
	programs   []*policy.Program
	exceptions []*policy.Exception
	mistakes   []string
}

// compiling returns the options for compiling policies as the admission controller does: a namespaced policy applies only to its
// namespace.
func (d *Dashboard) compiling() family.Options {
	o := family.Options{Types: d.o.Types}
	if d.o.Server != nil {
		o.Server = d.o.Server()
	}
	return o
}

// compile decodes and compiles policies, with their companions and exceptions. Use its result only if it has no mistakes.
func (d *Dashboard) compile(text string) (set policySet) {
	var diags diag.List
	companions := compile.Companions{Registry: d.o.Families}
	options := d.compiling()
	options.Allowance = &compilecost.Allowance{} // one for all, so that they compile within the time of a request
	var policies []compile.Object
	var ids []policy.ID
	for _, document := range source.Split("policies", text) {
		objects, found := document.Decode(source.Exact)
		diags.Add(found...)
		for _, o := range objects {
			apiVersion, _ := o.Value["apiVersion"].(string)
			object := compile.Object{Value: o.Value, Pos: o.Pos}
			switch {
			case d.o.Families.CompanionOf(apiVersion, o.Kind()) != nil:
				diags.Add(companions.Add(object)...)
			case d.o.Families.ExceptionsOf(apiVersion, o.Kind()) != nil:
				e, found := d.o.Families.ExceptionWith(object, options)
				diags.Add(found...)
				if !e.Expired(d.o.Now()) {
					set.exceptions = append(set.exceptions, e)
				}
			default:
				policies, ids = append(policies, object), append(ids, compile.IDOf(object))
			}
		}
	}
	for i, o := range policies {
		program, found := d.o.Families.With(o, companions.Of(ids[i]), options)
		diags.Add(found...)
		set.programs = append(set.programs, program)
	}
	for _, m := range diags.Errors() {
		if len(set.mistakes) == maxMistakes {
			break
		}
		set.mistakes = append(set.mistakes, m.String())
	}
	return set
}

// answerPolicies lists the policies in the cluster that the user may list. If the request names a policy, it returns the text of
// that policy.
func (d *Dashboard) answerPolicies(r *http.Request) (any, error) {
	var of choice
	for name, given := range r.URL.Query() {
		switch name {
		case "group":
			of.Group = given[0]
		case "kind":
			of.Kind = given[0]
		case "namespace":
			of.Namespace = given[0]
		case "name":
			of.Name = given[0]
		default:
			return nil, badRequest{errors.New("the only parameters are group, kind, namespace, name")}
		}
	}
	c, err := d.clusterOf(bearer(r))
	if err != nil {
		return nil, err
	}
	if of == (choice{}) {
		list, err := d.choices(r.Context(), c, d.visible(viewOf(r)))
		return map[string]any{"policies": list}, err
	}
	text, err := policyText(r.Context(), c, of)
	if err == nil && text == "" {
		err = badRequest{errors.New("there is no such policy that you may read")}
	}
	return map[string]any{"text": text}, err
}
