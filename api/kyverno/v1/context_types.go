package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ContextEntry gives a name to a value from one source.
//
// +ephor:exactlyOneOf=configMap;apiCall;imageRegistry;variable;globalReference
type ContextEntry struct {
	// The name under which expressions read the value.
	Name string `json:"name"`
	// A ConfigMap.
	// +optional
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
	// The answer of the API server or of another HTTP service.
	// +optional
	APICall *ContextAPICall `json:"apiCall,omitempty"`
	// What a registry says about an image.
	// +optional
	ImageRegistry *ImageRegistry `json:"imageRegistry,omitempty"`
	// A value written here or computed from other values.
	// +optional
	Variable *Variable `json:"variable,omitempty"`
	// A GlobalContextEntry, kept up to date for all policies.
	// +optional
	GlobalReference *GlobalContextEntryReference `json:"globalReference,omitempty"`
}

// Variable is a value written in the policy or computed by an expression.
type Variable struct {
	// Any JSON value; it may hold variables.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
	// Expression applied to value, or to everything that is known when there is no value.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
	// Taken when the expression fails or gives null.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`
}

// ConfigMapReference names a ConfigMap.
type ConfigMapReference struct {
	// Name of the ConfigMap.
	Name string `json:"name"`
	// Namespace of the ConfigMap; default when empty.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// GlobalContextEntryReference names a GlobalContextEntry.
type GlobalContextEntryReference struct {
	// Name of the entry, with .⟨projection⟩ behind it to read one of its projections.
	Name string `json:"name"`
	// Expression applied to the entry's data.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
}

// ContextAPICall is an HTTP call whose answer becomes a value.
type ContextAPICall struct {
	APICall `json:",inline"`
	// Taken when the call fails or gives null.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`
	// Expression applied to the answer.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
}

// APICall is an HTTP call, to the API server by urlPath or to another service.
type APICall struct {
	// Path on the API server, such as /api/v1/namespaces.
	// +optional
	URLPath string `json:"urlPath,omitempty"`
	// HTTP method.
	// +optional
	// +kubebuilder:default=GET
	Method Method `json:"method,omitempty"`
	// Body of a POST, as keys and values of a JSON object.
	// +optional
	Data []RequestData `json:"data,omitempty"`
	// A service other than the API server.
	// +optional
	Service *ServiceCall `json:"service,omitempty"`
}

// Method of an HTTP call.
//
// +kubebuilder:validation:Enum=GET;POST
type Method string

// RequestData is one field of a request's body.
type RequestData struct {
	// Name of the field.
	Key string `json:"key"`
	// Any JSON value; it may hold variables.
	Value *apiextensionsv1.JSON `json:"value"`
}

// ServiceCall names an HTTP service.
type ServiceCall struct {
	// URL of the service.
	URL string `json:"url"`
	// Headers of the request.
	// +optional
	Headers []HTTPHeader `json:"headers,omitempty"`
	// PEM certificates that the service's certificate is checked against.
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// HTTPHeader is a header of a request.
type HTTPHeader struct {
	// Name of the header.
	Key string `json:"key"`
	// Value of the header.
	Value string `json:"value"`
}

// ImageRegistry reads an image's manifest and configuration.
type ImageRegistry struct {
	// Reference of the image; it may hold variables.
	Reference string `json:"reference"`
	// Expression applied to what the registry answered.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
	// How to log in to the registry.
	// +optional
	ImageRegistryCredentials *ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
}

// ImageRegistryCredentials says how to log in to registries.
type ImageRegistryCredentials struct {
	// Allows registries without TLS or with a certificate that is not trusted.
	// +optional
	AllowInsecureRegistry bool `json:"allowInsecureRegistry,omitempty"`
	// Sources of credentials.
	// +optional
	Providers []ImageRegistryCredentialsProvider `json:"providers,omitempty"`
	// Pull secrets, in the engine's namespace unless written as namespace/name.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
}

// ImageRegistryCredentialsProvider is a source of registry credentials.
//
// +kubebuilder:validation:Enum=default;amazon;azure;google;github
type ImageRegistryCredentialsProvider string
