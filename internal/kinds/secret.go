package kinds

// IsSecret reports whether an apiVersion and a kind are those of Secrets, whose values may not be logged or recorded.
func IsSecret(apiVersion, kind string) bool { return apiVersion == "v1" && kind == "Secret" }
