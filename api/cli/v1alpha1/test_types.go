package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Test defines the expected results of policies for resources. All paths are relative to the Test's own file.
type Test struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Name is the deprecated field for the test's name. A Test with this field is rejected.
	Name string `json:"name,omitempty"`
	// Policies are files and directories of policies.
	Policies []string `json:"policies,omitempty"`
	// Resources are files of the resources to evaluate. Only the first entry may be a directory.
	Resources []string `json:"resources,omitempty"`
	// JSONPayload is the deprecated form of JSONPayloads with one entry.
	JSONPayload string `json:"jsonPayload,omitempty"`
	// JSONPayloads are files with one object each that need not be a Kubernetes object.
	JSONPayloads []string `json:"jsonPayloads,omitempty"`
	// HTTPPayloads and EnvoyPayloads are files of check requests for authorization policies.
	HTTPPayloads  []string `json:"httpPayloads,omitempty"`
	EnvoyPayloads []string `json:"envoyPayloads,omitempty"`
	// Requests are files of recorded AdmissionReviews, in JSON or YAML. Each is evaluated as it was recorded. Results refer to a request
	// by its UID or its object.
	Requests []string `json:"requests,omitempty"`
	// TargetResources are files of the objects that rules for existing resources may change.
	TargetResources []string `json:"targetResources,omitempty"`
	// ParamResources are files of parameter objects of admission policies.
	ParamResources []string `json:"paramResources,omitempty"`
	// Variables is a file of kind Values; it is ignored where Values is set.
	Variables string `json:"variables,omitempty"`
	// Values are the values themselves.
	Values *ValuesSpec `json:"values,omitempty"`
	// UserInfo is a file of kind UserInfo.
	UserInfo string `json:"userinfo,omitempty"`
	// Results are the expectations.
	Results []TestResult `json:"results,omitempty"`
	// PolicyExceptions are files of exceptions.
	PolicyExceptions []string `json:"exceptions,omitempty"`
	// Context is a file of kind Context.
	Context string `json:"context,omitempty"`
	// ClusterResources are files of kind ClusterResource: what a cluster would hold.
	ClusterResources []string `json:"clusterResources,omitempty"`
	// APICallResponses are the answers to calls of services and of the Kubernetes API.
	APICallResponses []APICallResponse `json:"apiCallResponses,omitempty"`
	// GlobalContextEntries are the data of GlobalContextEntries.
	GlobalContextEntries []GlobalContextEntryValue `json:"globalContextEntries,omitempty"`
}

// TestResult is the expected result of one rule for some resources.
type TestResult struct {
	// Policy is the name of the policy, or namespace/name.
	Policy string `json:"policy"`
	// Rule is the name of the rule, which includes the rules generated from it. Without it the entry applies to all rules.
	Rule string `json:"rule,omitempty"`
	// Result is the expected status: pass, fail, skip, warn or error.
	Result string `json:"result,omitempty"`
	// Resources select objects by name or namespace/name. Without them the entry applies to all objects.
	Resources []string `json:"resources,omitempty"`
	// ResourceSpecs select further objects field by field.
	ResourceSpecs []ResourceSpec `json:"resourceSpecs,omitempty"`
	// Kind of the resources. It only informs the reader.
	Kind string `json:"kind,omitempty"`
	// Operation is CREATE, UPDATE or DELETE. All resources are evaluated once more with this operation, and must have the result.
	Operation string `json:"operation,omitempty"`

	// PatchedResources is the file of the objects that the rule must return.
	PatchedResources string `json:"patchedResources,omitempty"`
	// GeneratedResource and GeneratedResources are files of the objects that the rule must generate.
	GeneratedResource  string   `json:"generatedResource,omitempty"`
	GeneratedResources []string `json:"generatedResources,omitempty"`
	// CloneSourceResource is the file of the objects that the rule clones.
	CloneSourceResource string `json:"cloneSourceResource,omitempty"`
	// FailOnMissingResources makes the test fail if an object is missing in PatchedResources.
	FailOnMissingResources bool `json:"failOnMissingResources,omitempty"`

	// The kind of the policy. It only informs the reader.
	IsValidatingAdmissionPolicy bool `json:"isValidatingAdmissionPolicy,omitempty"`
	IsMutatingAdmissionPolicy   bool `json:"isMutatingAdmissionPolicy,omitempty"`
	IsValidatingPolicy          bool `json:"isValidatingPolicy,omitempty"`
	IsDeletingPolicy            bool `json:"isDeletingPolicy,omitempty"`
	IsImageValidatingPolicy     bool `json:"isImageValidatingPolicy,omitempty"`
	IsGeneratingPolicy          bool `json:"isGeneratingPolicy,omitempty"`
	IsMutatingPolicy            bool `json:"isMutatingPolicy,omitempty"`
}

// Deletes reports whether the policy deletes objects on a schedule, so that the result has no operation.
func (r *TestResult) Deletes() bool { return r.IsDeletingPolicy }

// ResourceSpec selects an object field by field. Empty fields must be empty in the object too; Kind and Subresource are ignored.
type ResourceSpec struct {
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}
