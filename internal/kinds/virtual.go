package kinds

// virtual are the resources that exist only in requests: reviews of authentication and authorization. Since Kubernetes 1.37 the API server sends
// requests for them to no webhook; it never sent them to its own admission policies.
var virtual = map[string]map[string]string{
	"authentication.k8s.io": {"TokenReview": "tokenreviews", "SelfSubjectReview": "selfsubjectreviews"},
	"authorization.k8s.io": {
		"SubjectAccessReview": "subjectaccessreviews", "LocalSubjectAccessReview": "localsubjectaccessreviews",
		"SelfSubjectAccessReview": "selfsubjectaccessreviews", "SelfSubjectRulesReview": "selfsubjectrulesreviews",
	},
}

// Virtual returns the kind that a selector names, if it is one of the reviews of authentication and authorization; otherwise an empty text. The
// group may be *; one of kind and resource is empty.
func Virtual(group, kind, resource string) string {
	for g, of := range virtual {
		if group != g && group != "*" {
			continue
		}
		for k, r := range of {
			if kind == k || resource == r {
				return k
			}
		}
	}
	return ""
}
