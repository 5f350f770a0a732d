package discoverytest

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
)

// Served is the discovery data of an API server, as lines of `group/version resource Kind`. A `!` after the kind makes it cluster-scoped.
type Served string

// Cluster has the kinds that most tests use.
const Cluster = Served(`
v1 pods Pod
v1 pods/exec PodExecOptions
v1 pods/log Pod
v1 pods/ephemeralcontainers Pod
v1 configmaps ConfigMap
v1 namespaces Namespace!
v1 replicationcontrollers ReplicationController
v1 replicationcontrollers/scale Scale
v1 services Service
apps/v1 daemonsets DaemonSet
apps/v1 deployments Deployment
apps/v1 deployments/scale Scale
apps/v1 replicasets ReplicaSet
apps/v1 statefulsets StatefulSet
batch/v1 cronjobs CronJob
batch/v1 jobs Job
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition!
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler
`)

// ServerGroupsAndResources implements the discovery of client-go.
func (s Served) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	lists := map[string]*metav1.APIResourceList{}
	var out []*metav1.APIResourceList
	for line := range strings.Lines(string(s)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if lists[f[0]] == nil {
			lists[f[0]] = &metav1.APIResourceList{GroupVersion: f[0]}
			out = append(out, lists[f[0]])
		}
		kind, isCluster := strings.CutSuffix(f[2], "!")
		lists[f[0]].APIResources = append(lists[f[0]].APIResources, metav1.APIResource{Name: f[1], Kind: kind, Namespaced: !isCluster})
	}
	return nil, out, nil
}

// ServerResourcesForGroupVersion returns an error: Ephor does not call it.
func (Served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, errors.New("not asked for")
}

// ServerPreferredResources returns an error: Ephor does not call it.
func (Served) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return nil, errors.New("not asked for")
}

// ServerPreferredNamespacedResources returns an error: Ephor does not call it.
func (Served) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return nil, errors.New("not asked for")
}

// Broken is the discovery data of an API server whose aggregated API for metrics (metrics.k8s.io/v1) does not answer.
type Broken struct{ Served }

// ServerGroupsAndResources implements the discovery of client-go. It returns the lists of the other groups with the error.
func (b Broken) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, lists, _ := b.Served.ServerGroupsAndResources()
	return groups, lists, &clientdiscovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: errors.New("no endpoints")}}
}
