package v1alpha1

// APICallResponse is the response to one call. Either URL or URLPath is set.
type APICallResponse struct {
	// URL is the absolute address of a service.
	URL string `json:"url,omitempty"`
	// URLPath is a path of the Kubernetes API.
	URLPath string `json:"urlPath,omitempty"`
	// Method is GET or POST; empty is GET.
	Method string `json:"method,omitempty"`
	// Response is the response of the server.
	Response MockResponse `json:"response"`
}

// MockResponse is the response of a service.
type MockResponse struct {
	// StatusCode of the response; 0 is 200. Any code outside 200–299 makes the call fail.
	StatusCode int `json:"statusCode,omitempty"`
	// Body is the decoded JSON of the response.
	Body any `json:"body"`
}

// GlobalContextEntryValue is the data of one GlobalContextEntry. Exactly one of Data, Resources and ResourceFiles is set.
type GlobalContextEntryValue struct {
	// Name of the entry.
	Name string `json:"name"`
	// Data is the entry's value itself.
	Data any `json:"data,omitempty"`
	// Resources are objects of a cluster: the value is their list.
	Resources []any `json:"resources,omitempty"`
	// ResourceFiles are files of such objects, inside the folder of the Test.
	ResourceFiles []string `json:"resourceFiles,omitempty"`
	// FieldPath selects a part of each object, or of the data, by its path.
	FieldPath string `json:"fieldPath,omitempty"`
	// Projections are named parts of the value.
	Projections []GlobalContextProjection `json:"projections,omitempty"`
}

// GlobalContextProjection is a part of the value, read as ⟨entry⟩.⟨name⟩.
type GlobalContextProjection struct {
	Name string `json:"name"`
	// Path is a JMESPath expression.
	Path string `json:"path"`
}
