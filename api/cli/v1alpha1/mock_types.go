package v1alpha1

// APICallResponse is the response to one call. Either URL or URLPath is set.
type APICallResponse struct {
	// Absolute address of a service. Either url or urlPath is set.
	URL string `json:"url,omitempty"`
	// Path of the Kubernetes API.
	URLPath string `json:"urlPath,omitempty"`
	// GET or POST. The default is GET.
	Method string `json:"method,omitempty"`
	// What the server answers.
	Response MockResponse `json:"response"`
}

// MockResponse is the response of a service.
type MockResponse struct {
	// Status code; 200 if absent. Any code outside 200–299 makes the call fail.
	StatusCode int `json:"statusCode,omitempty"`
	// Body: any JSON value.
	Body any `json:"body"`
}

// GlobalContextEntryValue is the data of one GlobalContextEntry. Exactly one of Data, Resources and ResourceFiles is set.
type GlobalContextEntryValue struct {
	// Name of the entry.
	Name string `json:"name"`
	// The value itself. Exactly one of data, resources and resourceFiles is set.
	Data any `json:"data,omitempty"`
	// Objects of a cluster: the value is their list.
	Resources []any `json:"resources,omitempty"`
	// Files of such objects, inside the folder of the Test.
	ResourceFiles []string `json:"resourceFiles,omitempty"`
	// Path of the part of each object, or of the data, that is kept.
	FieldPath string `json:"fieldPath,omitempty"`
	// Named parts of the value.
	Projections []GlobalContextProjection `json:"projections,omitempty"`
}

// GlobalContextProjection is a part of the value.
type GlobalContextProjection struct {
	// Name of the part; policies read it as ⟨entry⟩.⟨name⟩.
	Name string `json:"name"`
	// A JMESPath expression.
	Path string `json:"path"`
}
