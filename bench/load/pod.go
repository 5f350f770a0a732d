package load

import (
	"encoding/json"
	"fmt"
)

type object = map[string]any

// Pod returns a Pod like that of a Deployment in production: two containers and an init container with probes, resources
// and environment, labels, annotations, and the managed fields that the API server includes. The good one violates none
// of examples/pod-security; the bad one runs a privileged init container with an additional capability.
func Pod(name string, bad bool) object {
	security := func() object {
		return object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 10001,
			"capabilities": object{"drop": []any{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"}}
	}
	init := Container("migrate", security())
	if bad {
		sec := init["securityContext"].(object)
		sec["privileged"], sec["allowPrivilegeEscalation"] = true, true
		sec["capabilities"] = object{"add": []any{"SYS_ADMIN"}}
	}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"name": name, "namespace": "default", "uid": "6f0c3a7e-4f6b-4c55-9f4e-0d6a2f8c1b11", "creationTimestamp": "2026-01-01T00:00:00Z",
			"labels": object{"app.kubernetes.io/name": "shop", "app.kubernetes.io/component": "frontend", "app.kubernetes.io/part-of": "store",
				"app.kubernetes.io/version": "4.17.2", "team": "checkout", "pod-template-hash": "7d9c5b8f6d"},
			"annotations": object{"prometheus.io/scrape": "true", "prometheus.io/port": "9102", "checksum/config": "9b1c0b3c7be9d2f1f1f0b7f0a9e3bd1a7d7c1f0e6d0a5f5ad4f2f1f3b6a2c9d1"},
			"managedFields": []any{object{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
				"fieldsType": "FieldsV1", "fieldsV1": managedFields()}},
		},
		"spec": object{
			"serviceAccountName": "shop", "automountServiceAccountToken": false, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
			"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "priority": 0,
			"nodeSelector":    object{"kubernetes.io/os": "linux", "node.kubernetes.io/pool": "general"},
			"securityContext": object{"runAsNonRoot": true, "fsGroup": 10001, "seccompProfile": object{"type": "RuntimeDefault"}},
			"tolerations": []any{
				object{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
				object{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}},
			"initContainers": []any{init},
			"containers":     []any{Container("web", security()), Container("metrics", security())},
			"volumes": []any{object{"name": "tmp", "emptyDir": object{}}, object{"name": "config", "configMap": object{"name": "shop-config", "defaultMode": 420}},
				object{"name": "tls", "secret": object{"secretName": "shop-tls", "defaultMode": 420}}},
		},
	}
}

// Container returns one of its containers.
func Container(name string, security object) object {
	probe := func(path string) object {
		return object{"httpGet": object{"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5, "periodSeconds": 10,
			"timeoutSeconds": 2, "successThreshold": 1, "failureThreshold": 3}
	}
	c := object{
		"name": name, "image": "registry.example.com/store/" + name + ":4.17.2", "imagePullPolicy": "IfNotPresent",
		"command": []any{"/usr/local/bin/" + name}, "args": []any{"--config=/etc/shop/config.yaml", "--log-format=json"},
		"ports": []any{object{"name": "http", "containerPort": 8080, "protocol": "TCP"}},
		"env": []any{object{"name": "POD_NAME", "valueFrom": object{"fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.name"}}},
			object{"name": "DATABASE_HOST", "value": "postgres.store.svc"}, object{"name": "CACHE_HOST", "value": "redis.store.svc"}, object{"name": "REGION", "value": "eu-central-1"}},
		"resources":       object{"requests": object{"cpu": "100m", "memory": "128Mi"}, "limits": object{"cpu": "1", "memory": "512Mi"}},
		"securityContext": security,
		"volumeMounts": []any{object{"name": "tmp", "mountPath": "/tmp"}, object{"name": "config", "mountPath": "/etc/shop", "readOnly": true},
			object{"name": "tls", "mountPath": "/etc/tls", "readOnly": true}},
		"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
	}
	if name != "migrate" {
		c["livenessProbe"], c["readinessProbe"] = probe("/healthz"), probe("/readyz")
	}
	return c
}

func managedFields() object {
	leaf := func(names ...string) object {
		o := object{".": object{}}
		for _, n := range names {
			o["f:"+n] = object{}
		}
		return o
	}
	spec := object{"f:containers": object{}, "f:initContainers": object{}, "f:dnsPolicy": object{}, "f:enableServiceLinks": object{}, "f:nodeSelector": object{},
		"f:restartPolicy": object{}, "f:schedulerName": object{}, "f:securityContext": leaf("runAsNonRoot", "fsGroup"), "f:tolerations": object{}}
	for _, c := range []string{"web", "metrics"} {
		spec["f:containers"].(object)[fmt.Sprintf(`k:{"name":%q}`, c)] = leaf("name", "image", "imagePullPolicy", "command", "args", "env", "ports", "resources",
			"securityContext", "volumeMounts", "livenessProbe", "readinessProbe", "terminationMessagePath", "terminationMessagePolicy")
	}
	return object{"f:metadata": object{"f:labels": leaf("app.kubernetes.io/name", "team"), "f:annotations": leaf("prometheus.io/scrape"), "f:ownerReferences": object{}}, "f:spec": spec}
}

// Review returns the AdmissionReview that the API server sends for the creation of obj, as JSON.
func Review(obj object) []byte {
	meta := obj["metadata"].(object)
	gvk := object{"group": "", "version": "v1", "kind": "Pod"}
	gvr := object{"group": "", "version": "v1", "resource": "pods"}
	return JSON(object{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": object{
		"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
		"name": meta["name"], "namespace": meta["namespace"], "operation": "CREATE",
		"userInfo": object{"username": "system:serviceaccount:kube-system:replicaset-controller", "uid": "a7e1d8c3",
			"groups": []any{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}},
		"object": obj, "oldObject": nil, "dryRun": false,
		"options": object{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
	}})
}

// JSON returns the JSON of a value that always encodes.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
