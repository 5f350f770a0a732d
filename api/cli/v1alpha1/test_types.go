package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Test defines the expected results of policies for resources. All paths are relative to the Test's own file. `ephor test` reads the files
// with the name kyverno-test.yaml.
type Test struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// An older form: the name of the test belongs in metadata. A Test with this field is refused.
	Name string `json:"name,omitempty"`
	// Files and folders of policies.
	Policies []string `json:"policies,omitempty"`
	// Files of the resources to evaluate. Only the first entry may be a folder.
	Resources []string `json:"resources,omitempty"`
	// An older form of jsonPayloads with one entry.
	JSONPayload string `json:"jsonPayload,omitempty"`
	// Files with one JSON document each, which need not be a Kubernetes object.
	JSONPayloads []string `json:"jsonPayloads,omitempty"`
	// Files of HTTP requests for authorization policies.
	HTTPPayloads []string `json:"httpPayloads,omitempty"`
	// Files of Envoy's check requests for authorization policies.
	EnvoyPayloads []string `json:"envoyPayloads,omitempty"`
	// Files of recorded AdmissionReviews, in JSON or YAML. Each is evaluated as it was recorded. Results refer to a request by its UID or its
	// object.
	Requests []string `json:"requests,omitempty"`
	// Files of the objects that rules for existing resources may change.
	TargetResources []string `json:"targetResources,omitempty"`
	// Files of parameter objects of admission policies.
	ParamResources []string `json:"paramResources,omitempty"`
	// File of kind Values; ignored where values is set.
	Variables string `json:"variables,omitempty"`
	// The values themselves, with the fields of a file of kind Values.
	Values *ValuesSpec `json:"values,omitempty"`
	// File of kind UserInfo.
	UserInfo string `json:"userinfo,omitempty"`
	// The expectations.
	Results []TestResult `json:"results,omitempty"`
	// Files of exceptions.
	PolicyExceptions []string `json:"exceptions,omitempty"`
	// File of kind Context.
	Context string `json:"context,omitempty"`
	// Files of kind ClusterResource: what a cluster would hold.
	ClusterResources []string `json:"clusterResources,omitempty"`
	// Answers to calls of services and of the Kubernetes API.
	APICallResponses []APICallResponse `json:"apiCallResponses,omitempty"`
	// Data of GlobalContextEntries.
	GlobalContextEntries []GlobalContextEntryValue `json:"globalContextEntries,omitempty"`
}

// TestResult is the expected result of one rule for some resources.
type TestResult struct {
	// Name of the policy, or namespace/name.
	Policy string `json:"policy"`
	// Name of the rule, which includes the rules generated from it. Without it the entry applies to all rules.
	Rule string `json:"rule,omitempty"`
	// The expected status: pass, fail, skip, warn or error.
	Result string `json:"result,omitempty"`
	// Objects, by name or namespace/name. Without them the entry applies to all objects.
	Resources []string `json:"resources,omitempty"`
	// Further objects, selected field by field.
	ResourceSpecs []ResourceSpec `json:"resourceSpecs,omitempty"`
	// Kind of the resources. It only informs the reader, except that an empty kind stands for a JSON document.
	Kind string `json:"kind,omitempty"`
	// CREATE, UPDATE or DELETE. All resources are evaluated once more with this operation, and must have the result.
	Operation string `json:"operation,omitempty"`

	// File of the objects that the rule must return.
	PatchedResources string `json:"patchedResources,omitempty"`
	// File of an object that the rule must generate.
	GeneratedResource string `json:"generatedResource,omitempty"`
	// Files of the objects that the rule must generate.
	GeneratedResources []string `json:"generatedResources,omitempty"`
	// File of the objects that the rule clones.
	CloneSourceResource string `json:"cloneSourceResource,omitempty"`
	// Whether the test fails if an object is missing in patchedResources.
	FailOnMissingResources bool `json:"failOnMissingResources,omitempty"`

	// Informs the reader that the policy is a ValidatingAdmissionPolicy.
	IsValidatingAdmissionPolicy bool `json:"isValidatingAdmissionPolicy,omitempty"`
	// Informs the reader that the policy is a MutatingAdmissionPolicy.
	IsMutatingAdmissionPolicy bool `json:"isMutatingAdmissionPolicy,omitempty"`
	// Informs the reader that the policy is a ValidatingPolicy.
	IsValidatingPolicy bool `json:"isValidatingPolicy,omitempty"`
	// The policy deletes objects on a schedule, so that the result has no operation.
	IsDeletingPolicy bool `json:"isDeletingPolicy,omitempty"`
	// Informs the reader that the policy is an ImageValidatingPolicy.
	IsImageValidatingPolicy bool `json:"isImageValidatingPolicy,omitempty"`
	// Informs the reader that the policy is a GeneratingPolicy.
	IsGeneratingPolicy bool `json:"isGeneratingPolicy,omitempty"`
	// Informs the reader that the policy is a MutatingPolicy.
	IsMutatingPolicy bool `json:"isMutatingPolicy,omitempty"`
}

// Deletes reports whether the policy deletes objects on a schedule, so that the result has no operation.
func (r *TestResult) Deletes() bool { return r.IsDeletingPolicy }

// ResourceSpec selects an object field by field. Empty fields must be empty in the object too; Kind and Subresource are ignored.
type ResourceSpec struct {
	// API group; empty for the core group.
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version,omitempty"`
	// Kind. It only informs the reader.
	Kind string `json:"kind,omitempty"`
	// Namespace; empty for a cluster-wide object.
	Namespace string `json:"namespace,omitempty"`
	// Subresource. It only informs the reader.
	Subresource string `json:"subresource,omitempty"`
	// Name.
	Name string `json:"name,omitempty"`
}
