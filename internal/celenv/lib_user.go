package celenv

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const accountName = "policies.ServiceAccount"

var accountType = cel.ObjectType(accountName)

var libUser = &Library{
	Name:  "user",
	Doc:   "User names.",
	Kinds: withUser,
	Functions: []Function{{
		Names:     []string{"user.parseServiceAccount", "parseServiceAccount"},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: accountType}},
		Doc:       "Returns the Name and Namespace of the service account that a user name denotes; both are empty for other users.",
		Example:   "user.parseServiceAccount('system:serviceaccount:team-a:builder').Namespace",
		Result:    `"team-a"`,
		call: func(_ *Scope, args []ref.Val) ref.Val {
			fields, shown := map[string]any{"Name": "", "Namespace": ""}, map[string]any{}
			if rest, ok := strings.CutPrefix(text(args[0]), "system:serviceaccount:"); ok {
				if parts := strings.Split(rest, ":"); len(parts) > 1 {
					fields["Namespace"], fields["Name"] = parts[0], parts[1]
				}
			}
			for name, v := range fields {
				if v != "" {
					shown[strings.ToLower(name)] = v
				}
			}
			return newRecord(accountType, fields, shown)
		},
	}},
	types: func() []*apiservercel.DeclType {
		text := func(name string) *apiservercel.DeclField {
			return apiservercel.NewDeclField(name, apiservercel.StringType, true, nil, nil)
		}
		return []*apiservercel.DeclType{apiservercel.NewObjectType(accountName, map[string]*apiservercel.DeclField{
			"Name": text("Name"), "Namespace": text("Namespace"),
		})}
	},
}
