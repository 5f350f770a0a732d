package policyreview

import (
	"context"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// Policy accepts a policy if it compiles: the same compiled form is executed later. A refusal begins with only the text of the first
// mistake, as in Kyverno; the following lines say where it is, how to correct it and what else is wrong.
func (v *Reviewer) Policy(ctx context.Context, req *policy.Request) Answer {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return Answer{Allowed: true}
	}
	object, err := req.Object.Map()
	if err != nil {
		return Answer{Message: "the policy cannot be read: " + err.Error()}
	}
	if leaves(req, object) {
		return Answer{Allowed: true}
	}
	permitted := v.Permitted
	if v.Server != nil {
		permitted.Server = v.Server()
	}
	program, diags := v.Families.Written(compile.Object{Value: object}, permitted)
	own := v.Families.FamilyOf(typeOf(object))
	if program != nil {
		diags.Add(v.checkKinds(program, object)...)
		diags.Add(v.checkOutputs(program)...)
	}
	if !diags.HasErrors() {
		diags.Add(v.checkNamespace(program)...)
		diags.Add(v.checkDeferred(program)...)
		diags.Add(v.checkLoops(program)...)
		diags.Add(lint.VirtualResources(program)...)
		diags.Add(lint.CELFields(object, builtinKinds.At(permitted.Server))...)
	}
	changed := true
	if req.Operation == policy.Update {
		old, err := req.OldObject.Map()
		if err != nil {
			return Answer{Message: "the stored policy cannot be read: " + err.Error()}
		}
		diags.Add(v.Families.CheckUpdate(old, object)...)
		changed = !value.Equal(old["spec"], object["spec"])
	}
	if changed && !diags.HasErrors() {
		diags.Add(v.checkRights(ctx, program, req.User)...)
		diags.Add(v.warnReports(ctx, program)...)
		if program.Schedule != nil {
			diags.Add(v.checkDeletion(ctx, program, req.User)...)
		}
		if v.Webhooks != nil {
			diags.Add(v.Webhooks(program)...)
		}
	}
	warnings := appendWarnings(nil, diags.Warnings())
	switch mistakes := diags.Errors(); {
	case len(mistakes) == 0:
		return Answer{Allowed: true, Warnings: warnings}
	case own != nil && own.FieldErrors:
		message, repeated := fieldErrors(mistakes)
		return Answer{Message: message, Warnings: append(repeated, warnings...)}
	default:
		return Answer{Message: refusal(mistakes)}
	}
}

// checkNamespace reports that the policies of a namespace cost too much to compile together.
func (v *Reviewer) checkNamespace(program *policy.Program) (diags diag.List) {
	if program.Namespace == "" || program.Held == 0 || v.Programs == nil {
		return nil
	}
	held := program.Held
	for _, p := range v.Programs() {
		if p.Namespace == program.Namespace && (p.Kind != program.Kind || p.Name != program.Name) {
			held += p.Held
		}
	}
	if held > compilecost.MaxNamespaceBytes {
		diags.Errorf("spec", "%s", compilecost.NamespaceText(program.Namespace))
	}
	return diags
}

func typeOf(object map[string]any) (apiVersion, kind string) {
	apiVersion, _ = object["apiVersion"].(string)
	kind, _ = object["kind"].(string)
	return apiVersion, kind
}

// builtinKinds are the kinds whose fields are known; fields of custom resources are not checked.
var builtinKinds = schema.New()
