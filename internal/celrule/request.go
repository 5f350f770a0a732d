package celrule

import (
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// requestOf returns the variable request, as the API server creates it from an AdmissionRequest, without the objects. Empty fields
// are missing, except the user's name and groups, which are empty without a requester (Options.OmitEmpty omits them).
func (o Options) requestOf(r *policy.Request) map[string]any {
	asked := r.AskedFor()
	out := map[string]any{
		"kind": policy.KindDocument(r.RequestGVK), "requestKind": policy.KindDocument(asked.GVK),
		"resource": policy.ResourceDocument(r.GVR), "requestResource": policy.ResourceDocument(asked.GVR),
		"name": r.Name, "operation": string(r.Operation), "dryRun": r.DryRun, "options": r.Options,
	}
	if r.Namespace != "" {
		out["namespace"] = r.Namespace
	}
	if r.Subresource != "" {
		out["subResource"] = r.Subresource
	}
	if asked.Subresource != "" {
		out["requestSubResource"] = asked.Subresource
	}
	user := map[string]any{"username": "", "groups": []any{}}
	if o.OmitEmpty {
		user = map[string]any{}
		if r.Name == "" {
			delete(out, "name")
		}
	}
	if u := r.User; u != nil {
		all := !o.OmitEmpty || u == policy.NoRequester
		if u.Username != "" || all {
			user["username"] = u.Username
		}
		if len(u.Groups) > 0 || all {
			user["groups"] = textList(u.Groups)
		}
		if u.UID != "" {
			user["uid"] = u.UID
		}
		if len(u.Extra) > 0 {
			extra := make(map[string]any, len(u.Extra))
			for k, v := range u.Extra {
				extra[k] = textList(v)
			}
			user["extra"] = extra
		}
	}
	out["userInfo"] = user
	return out
}

func textList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// requestWith is requestOf with the objects, null for an object that the request does not have.
func (o Options) requestWith(r *policy.Request, object, old any) map[string]any {
	out := o.requestOf(r)
	out["object"], out["oldObject"] = object, old
	if r.Origin == policy.FromCLI {
		out["object"], out["oldObject"] = value.WholeNumbers(object), value.WholeNumbers(old)
	}
	return out
}
