package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ContextEntry defines a named value from exactly one source.
//
// +ephor:exactlyOneOf=configMap;apiCall;imageRegistry;variable;globalReference
type ContextEntry struct {
	// Name of the variable that expressions read.
	Name string `json:"name"`
	// Reads a ConfigMap.
	// +optional
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
	// Calls the API server or another HTTP service, and reads the response.
	// +optional
	APICall *ContextAPICall `json:"apiCall,omitempty"`
	// Reads the manifest and configuration of an image from its registry.
	// +optional
	ImageRegistry *ImageRegistry `json:"imageRegistry,omitempty"`
	// A literal value, or one that an expression computes.
	// +optional
	Variable *Variable `json:"variable,omitempty"`
	// Reads a GlobalContextEntry, which is kept up to date for all policies.
	// +optional
	GlobalReference *GlobalContextEntryReference `json:"globalReference,omitempty"`
}

// Variable is a value written in the policy or computed by an expression.
type Variable struct {
	// The literal value: any JSON value. It may contain variables.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
	// A JMESPath expression. It reads value; without a value it reads all variables of the rule.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
	// Value that is used if the expression fails or returns null.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`
}

// ConfigMapReference is a reference to a ConfigMap.
type ConfigMapReference struct {
	// Name of the ConfigMap.
	Name string `json:"name"`
	// Namespace of the ConfigMap. The default is the namespace "default".
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// GlobalContextEntryReference is a reference to a GlobalContextEntry.
type GlobalContextEntryReference struct {
	// Name of the entry. ⟨name⟩.⟨projection⟩ reads one of its projections.
	Name string `json:"name"`
	// A JMESPath expression that is evaluated on the entry's data.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
}

// ContextAPICall is an HTTP call whose response is the value.
type ContextAPICall struct {
	APICall `json:",inline"`
	// Value that is used if the call fails or returns null.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`
	// A JMESPath expression that is evaluated on the response.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
}

// APICall is an HTTP call, to the API server by urlPath or to another service.
type APICall struct {
	// Path on the API server, such as /api/v1/namespaces.
	// +optional
	URLPath string `json:"urlPath,omitempty"`
	// HTTP method: GET or POST. The default is GET.
	// +optional
	// +kubebuilder:default=GET
	Method Method `json:"method,omitempty"`
	// Body of a POST request: the fields of a JSON object.
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
	// Value of the field: any JSON value. It may contain variables.
	Value *apiextensionsv1.JSON `json:"value"`
}

// ServiceCall is a call of an HTTP service.
type ServiceCall struct {
	// URL of the service.
	URL string `json:"url"`
	// Headers of the request.
	// +optional
	Headers []HTTPHeader `json:"headers,omitempty"`
	// CA certificates in PEM that verify the service's certificate.
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
	// Reference of the image. It may contain variables.
	Reference string `json:"reference"`
	// A JMESPath expression that is evaluated on the image's data.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
	// Credentials for the registry.
	// +optional
	ImageRegistryCredentials *ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
}

// ImageRegistryCredentials configures the access to image registries.
type ImageRegistryCredentials struct {
	// Allows registries without TLS, and those whose certificate is not trusted. The default is false.
	// +optional
	AllowInsecureRegistry bool `json:"allowInsecureRegistry,omitempty"`
	// Providers of registry credentials: default, amazon, azure, google, github. The identity of the controller is used.
	// +optional
	Providers []ImageRegistryCredentialsProvider `json:"providers,omitempty"`
	// Names of pull secrets in the namespace of the installation, or namespace/name. Those of a namespaced policy are read from the
	// policy's namespace.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
}

// ImageRegistryCredentialsProvider is a source of registry credentials.
//
// +kubebuilder:validation:Enum=default;amazon;azure;google;github
type ImageRegistryCredentialsProvider string
