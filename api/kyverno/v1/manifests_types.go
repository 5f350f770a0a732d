package v1

// Manifests requires a signature on the manifest of the resource.
type Manifests struct {
	// The required signers.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Domain of the annotations that contain signatures. The default is cosign.sigstore.dev.
	// +optional
	AnnotationDomain string `json:"annotationDomain,omitempty"`
	// Fields in which the resource may differ from the signed manifest.
	// +optional
	IgnoreFields []ObjectFieldBinding `json:"ignoreFields,omitempty"`
	// Compares the resource with the manifest as the API server would store it.
	// +optional
	DryRunOption DryRunOption `json:"dryRun,omitempty,omitzero"`
	// Image repository that contains the signatures.
	// +optional
	Repository string `json:"repository,omitempty"`
}

// ObjectFieldBinding selects fields of some resources.
type ObjectFieldBinding struct {
	// Paths of the fields, such as spec.replicas.
	// +optional
	Fields []string `json:"fields,omitempty"`
	// The resources whose fields are selected.
	// +optional
	Objects []ObjectReference `json:"objects,omitempty"`
}

// ObjectReference selects resources. An empty field matches all.
type ObjectReference struct {
	// API group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	// +optional
	Version string `json:"version,omitempty"`
	// Kind.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name.
	// +optional
	Name string `json:"name,omitempty"`
	// Namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// DryRunOption configures the dry run that a comparison of manifests uses.
type DryRunOption struct {
	// Whether the manifest is sent to the API server in a dry run.
	// +optional
	Enable bool `json:"enable,omitempty"`
	// Namespace of the dry run.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
