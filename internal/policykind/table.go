package policykind

// table lists the kinds of all families. A kind that lives in namespaces stands after its cluster-wide sibling.
var table = []Kind{
	{
		Family: Classic, Group: "kyverno.io", Kind: "ClusterPolicy", Resource: "clusterpolicies", Versions: []string{"v1", "v2beta1"},
		LabelPrefix: "cpol.kyverno.io/", Source: sourceKyverno, Work: []string{"mutate", "generate"}, Superseded: true, Excepted: true,
	},
	{
		Family: Classic, Group: "kyverno.io", Kind: "Policy", Resource: "policies", Versions: []string{"v1", "v2beta1"}, Namespaced: true,
		LabelPrefix: "pol.kyverno.io/", Source: sourceKyverno, Work: []string{"mutate", "generate"}, Superseded: true, Excepted: true,
	},
	{
		Family: Cleanup, Group: "kyverno.io", Kind: "ClusterCleanupPolicy", Resource: "clustercleanuppolicies", Versions: []string{"v2", "v2beta1"},
		Source: sourceKyverno, Superseded: true,
	},
	{
		Family: Cleanup, Group: "kyverno.io", Kind: "CleanupPolicy", Resource: "cleanuppolicies", Versions: []string{"v2", "v2beta1"}, Namespaced: true,
		Source: sourceKyverno, Superseded: true,
	},
	{
		Family: Native, Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies",
		Versions: []string{"v1", "v1beta1", "v1alpha1"}, Source: "ValidatingAdmissionPolicy",
	},
	{
		Family: Native, Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies",
		Versions: []string{"v1", "v1beta1", "v1alpha1"}, Source: "MutatingAdmissionPolicy",
	},
}

// sourceKyverno is the source of results that most kinds share.
const sourceKyverno = "kyverno"
