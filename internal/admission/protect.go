package admission

import (
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Texts and names of the protection of managed resources.
const (
	textProtected       = "A kyverno managed resource can only be modified by kyverno"
	namespaceController = "system:serviceaccount:kube-system:namespace-controller"
)

// protected reports whether an account other than ours changes an object with our label. An unreadable object is not protected, since its
// labels are not reliable. The namespace controller may delete; otherwise namespaces would never terminate.
func (s *Server) protected(req *policy.Request) bool {
	if !s.ProtectManaged || !managed(req.Object) && !managed(req.OldObject) {
		return false
	}
	user := ""
	if req.User != nil {
		user = req.User.Username
	}
	if strings.HasPrefix(user, "system:serviceaccount:"+s.Namespace+":") {
		return false
	}
	return req.Operation != policy.Delete || user != namespaceController
}

func managed(d *value.Doc) bool {
	object, err := d.Map()
	if err != nil {
		return false
	}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels[labelManaged] == "kyverno"
}
