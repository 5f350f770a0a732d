package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Test says which results policies must give for resources. All paths are relative to the Test's own file.
type Test struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Name is the deprecated place of the test's name; a Test that has it is refused.
	Name string `json:"name,omitempty"`
	// Policies are files and directories of policies.
	Policies []string `json:"policies,omitempty"`
	// Resources are files of the resources to evaluate, or one directory in the first place.
	Resources []string `json:"resources,omitempty"`
	// JSONPayload is the deprecated form of JSONPayloads with one entry.
	JSONPayload string `json:"jsonPayload,omitempty"`
	// JSONPayloads are files with one object each that need not be a Kubernetes object.
	JSONPayloads []string `json:"jsonPayloads,omitempty"`
	// HTTPPayloads and EnvoyPayloads are files of check requests for authorization policies.
	HTTPPayloads  []string `json:"httpPayloads,omitempty"`
	EnvoyPayloads []string `json:"envoyPayloads,omitempty"`
	// Requests are files of recorded AdmissionReviews, in JSON or YAML: each is evaluated as it was made. Results name a request by its UID, or
	// by its object.
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

// TestResult is what one rule is expected to give for some resources.
type TestResult struct {
	// Policy is the name of the policy, or namespace/name.
	Policy string `json:"policy"`
	// Rule is the rule's name; also the rules generated from it are meant. Without it all rules are.
	Rule string `json:"rule,omitempty"`
	// Result is the expected status: pass, fail, skip, warn or error.
	Result string `json:"result,omitempty"`
	// Resources name the objects, as name or namespace/name. Without them all objects are meant.
	Resources []string `json:"resources,omitempty"`
	// ResourceSpecs name further objects field by field.
	ResourceSpecs []ResourceSpec `json:"resourceSpecs,omitempty"`
	// Kind of the resources, for the reader.
	Kind string `json:"kind,omitempty"`
	// Operation evaluates all resources once more as CREATE, UPDATE or DELETE, and expects that result.
	Operation string `json:"operation,omitempty"`

	// PatchedResources is the file of the objects as they must be after the rule.
	PatchedResources string `json:"patchedResources,omitempty"`
	// GeneratedResource and GeneratedResources are files of the objects that the rule must generate.
	GeneratedResource  string   `json:"generatedResource,omitempty"`
	GeneratedResources []string `json:"generatedResources,omitempty"`
	// CloneSourceResource is the file of the objects that the rule clones.
	CloneSourceResource string `json:"cloneSourceResource,omitempty"`
	// FailOnMissingResources makes an object that PatchedResources lacks a failure.
	FailOnMissingResources bool `json:"failOnMissingResources,omitempty"`

	// What kind of policy is meant, for the reader.
	IsValidatingAdmissionPolicy bool `json:"isValidatingAdmissionPolicy,omitempty"`
	IsMutatingAdmissionPolicy   bool `json:"isMutatingAdmissionPolicy,omitempty"`
	IsValidatingPolicy          bool `json:"isValidatingPolicy,omitempty"`
	IsDeletingPolicy            bool `json:"isDeletingPolicy,omitempty"`
	IsImageValidatingPolicy     bool `json:"isImageValidatingPolicy,omitempty"`
	IsGeneratingPolicy          bool `json:"isGeneratingPolicy,omitempty"`
	IsMutatingPolicy            bool `json:"isMutatingPolicy,omitempty"`
}

// Deletes reports whether the policy deletes what exists on a schedule, so that there is no operation.
func (r *TestResult) Deletes() bool { return r.IsDeletingPolicy }

// ResourceSpec names an object field by field; the empty fields must be empty in the object too, but Kind and
// Subresource are not looked at.
type ResourceSpec struct {
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}
