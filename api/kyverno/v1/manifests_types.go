package v1

// Manifests requires that the resource's manifest is signed.
type Manifests struct {
	// Who has to sign.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Domain of the annotations that carry signatures; cosign.sigstore.dev when empty.
	// +optional
	AnnotationDomain string `json:"annotationDomain,omitempty"`
	// Fields in which the resource may differ from the signed manifest.
	// +optional
	IgnoreFields []ObjectFieldBinding `json:"ignoreFields,omitempty"`
	// Compares with the manifest as the API server would store it.
	// +optional
	DryRunOption DryRunOption `json:"dryRun,omitempty,omitzero"`
	// Image repository that holds the signatures.
	// +optional
	Repository string `json:"repository,omitempty"`
}

// ObjectFieldBinding names fields of some resources.
type ObjectFieldBinding struct {
	// The fields.
	// +optional
	Fields []string `json:"fields,omitempty"`
	// The resources.
	// +optional
	Objects []ObjectReference `json:"objects,omitempty"`
}

// ObjectReference selects resources; an empty field selects all.
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

// DryRunOption configures the dry run of a manifest check.
type DryRunOption struct {
	// Whether a dry run is made.
	// +optional
	Enable bool `json:"enable,omitempty"`
	// Namespace of the dry run.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
