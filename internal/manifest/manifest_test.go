package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/value"
)

const domain = "cosign.sigstore.dev"

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func zip(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

func archive(files ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755})
	for i, f := range files {
		_ = w.WriteHeader(&tar.Header{Name: strconv.Itoa(i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f))})
		_, _ = w.Write([]byte(f))
	}
	_ = w.Close()
	return zip(b.Bytes())
}

// signed adds a message and signatures to the annotations of the object.
func signed(o map[string]any, message []byte, signatures ...[]byte) map[string]any {
	annotations := map[string]any{domain + "/message": base64.StdEncoding.EncodeToString(zip(message))}
	for i, s := range signatures {
		name := domain + "/signature"
		if i > 0 {
			name += "_" + strconv.Itoa(i)
		}
		annotations[name] = base64.StdEncoding.EncodeToString(s)
	}
	metadata, _ := o["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	metadata["annotations"] = annotations
	return o
}

const service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}], selector: {app: x}}\n"

// TestRead tests that a message may be a manifest or an archive, and that each signature has its own certificate and log entry, compressed
// or not.
func TestRead(t *testing.T) {
	for _, message := range [][]byte{[]byte(service), archive(service)} {
		o := signed(object(t, service), message, []byte("one"), []byte("two"), []byte("three"))
		annotations := o["metadata"].(map[string]any)["annotations"].(map[string]any)
		encode := base64.StdEncoding.EncodeToString
		annotations[domain+"/certificate"] = encode(zip([]byte("pem")))
		annotations[domain+"/bundle_1"], annotations[domain+"/certificate_1"] = encode(zip([]byte("{}"))), encode([]byte("plain"))
		c, err := Read(o, domain)
		want := []Signature{{[]byte("one"), "pem", nil}, {[]byte("two"), "plain", []byte("{}")}, {[]byte("three"), "", nil}}
		if err != nil || !bytes.Equal(c.Message, message) || fmt.Sprint(c.Signatures) != fmt.Sprint(want) {
			t.Errorf("%v, %+v", err, c)
		}
		if d, err := c.Compare(o, domain, nil); err != nil || len(d) != 0 {
			t.Errorf("the object is as it was signed: %v, %v", d, err)
		}
	}
}

// TestReadErrors tests that a malformed message is an error, and that a message that is too large is not read.
func TestReadErrors(t *testing.T) {
	if _, err := Read(object(t, service), domain); !errors.Is(err, ErrNoSignature) {
		t.Errorf("no annotations: %v", err)
	}
	for name, annotations := range map[string]map[string]any{
		"no signature":     {domain + "/message": "YQ=="},
		"no base64":        {domain + "/message": "?", domain + "/signature": "YQ=="},
		"no gzip":          {domain + "/message": "YQ==", domain + "/signature": "YQ=="},
		"broken signature": {domain + "/message": base64.StdEncoding.EncodeToString(zip([]byte(service))), domain + "/signature": "?"},
		"no certificate":   {domain + "/message": base64.StdEncoding.EncodeToString(zip([]byte(service))), domain + "/signature": "YQ==", domain + "/certificate": "?"},
		"no bundle":        {domain + "/message": base64.StdEncoding.EncodeToString(zip([]byte(service))), domain + "/signature": "YQ==", domain + "/bundle": "?"},
		"a long certificate": {domain + "/message": base64.StdEncoding.EncodeToString(zip([]byte(service))), domain + "/signature": "YQ==",
			domain + "/certificate": base64.StdEncoding.EncodeToString(zip(make([]byte, maxCertificate+1)))},
		"a bomb": {domain + "/message": base64.StdEncoding.EncodeToString(zip(make([]byte, maxMessage+1))), domain + "/signature": "YQ=="},
	} {
		if c, err := Read(map[string]any{"metadata": map[string]any{"annotations": annotations}}, domain); err == nil {
			t.Errorf("%s: %v", name, c)
		}
	}
	for name, message := range map[string][]byte{
		"another object": []byte(strings.Replace(service, "name: a", "name: b", 1)),
		"no YAML":        []byte("a: [b"),
		"no archive":     zip([]byte("text")),
		"empty archive":  archive(),
		"a deep bomb":    zip(make([]byte, maxMessage+1)),
		"nothing":        {},
		"a list":         []byte("- a\n- b\n"),
	} {
		o := signed(object(t, service), message, []byte("s"))
		c, err := Read(o, domain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d, err := c.Compare(o, domain, nil); err == nil {
			t.Errorf("%s: no error, but %v", name, d)
		}
	}
}

// TestCompare tests that differences are found, except those that are ignored or that the API server makes.
func TestCompare(t *testing.T) {
	const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      serviceAccountName: robot
      containers: [{name: c, image: i, resources: {limits: {cpu: 0.5, memory: 1Gi}}, ports: [{containerPort: 80}]}]
`
	const deployed = `apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: d, uid: u, generation: 2, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {deployment.kubernetes.io/revision: "1"}}
spec:
  replicas: 2
  revisionHistoryLimit: 10
  progressDeadlineSeconds: 600
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  selector: {matchLabels: {app: x}}
  template:
    metadata: {creationTimestamp: null, labels: {app: x}}
    spec:
      serviceAccount: robot
      serviceAccountName: robot
      restartPolicy: Always
      dnsPolicy: ClusterFirst
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
      containers:
      - name: c
        image: i
        imagePullPolicy: Always
        resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 500m, memory: 1Gi}}
        ports: [{containerPort: 80, protocol: TCP}]
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
status: {replicas: 2}
`
	const netpol = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelector: {}}\n"
	for _, c := range []struct {
		name, signed, now string
		ignored           []Ignored
		want              string // key=before>after …
	}{
		{"the same", service, service, nil, ""},
		{"a changed field", service, strings.Replace(service, "app: x", "app: q", 1), nil, `spec.selector.app="x">"q"`},
		{"an added field", service, strings.Replace(service, "app: x", "app: x, b: c", 1), nil, `spec.selector.b=null>"c"`},
		{"a removed field", service, strings.Replace(service, ", selector: {app: x}", "", 1), nil, `spec.selector.app="x">null`},
		{"an added element", service, strings.Replace(service, "{port: 80}", "{port: 80}, {port: 81}", 1), nil, `spec.ports.1.port=null>81`},
		{"a label", service, strings.Replace(service, "name: a", "name: a, labels: {x: q}", 1), nil, `metadata.labels.x=null>"q"`},
		{"an annotation", service, strings.Replace(service, "name: a", "name: a, annotations: {x: q, cosign.sigstore.dev/other: z}", 1), nil,
			`metadata.annotations.cosign.sigstore.dev/other=null>"z" metadata.annotations.x=null>"q"`},
		{"annotations of signing", service, strings.Replace(service, "name: a", "name: a, annotations: {cosign.sigstore.dev/message: m, cosign.sigstore.dev/signature_1: s, cosign.sigstore.dev/certificate: c}", 1), nil, ""},
		{"defaults of a service", service, strings.Replace(service, "spec: {ports: [{port: 80}]",
			"spec: {type: ClusterIP, clusterIP: 1.2.3.4, clusterIPs: [1.2.3.4], sessionAffinity: None, internalTrafficPolicy: Cluster, ports: [{port: 80, protocol: TCP, targetPort: 80}]", 1), nil, ""},
		{"no defaults", service, strings.Replace(service, "spec: {ports: [{port: 80}]", "spec: {type: LoadBalancer, ports: [{port: 80, protocol: UDP, targetPort: 8080}]", 1), nil,
			`spec.ports.0.protocol=null>"UDP" spec.ports.0.targetPort=null>8080 spec.type=null>"LoadBalancer"`},
		{"a default that was signed otherwise", strings.Replace(service, "spec: {", "spec: {type: NodePort, ", 1), strings.Replace(service, "spec: {", "spec: {type: ClusterIP, ", 1), nil,
			`spec.type="NodePort">"ClusterIP"`},
		{"a deployment as it is stored", deployment, deployed, nil, ""},
		{"another grace period", deployment, strings.Replace(deployed, "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 5", 1), nil, ""},
		{"another grace period than was signed", deployed, strings.Replace(deployed, "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 5", 1), nil,
			"spec.template.spec.terminationGracePeriodSeconds=30>5"},
		{"a deployment that gained a privilege", deployment, strings.Replace(deployed, "securityContext: {}", "hostNetwork: true\n      securityContext: {}", 1), nil,
			"spec.template.spec.hostNetwork=null>true"},
		{"another security context", deployment, strings.Replace(deployed, "securityContext: {}", "securityContext: {runAsUser: 0}", 1), nil,
			"spec.template.spec.securityContext.runAsUser=null>0"},
		{"other limits", deployment, strings.Replace(deployed, "limits: {cpu: 500m", "limits: {cpu: 501m", 1), nil,
			`spec.template.spec.containers.0.resources.limits.cpu=0.5>"501m" spec.template.spec.containers.0.resources.requests.cpu=null>"500m" ` +
				`spec.template.spec.containers.0.resources.requests.memory=null>"1Gi"`},
		{"ignored", deployment, strings.Replace(deployed, "replicas: 2", "replicas: 5", 1), []Ignored{{Objects: []Object{{Kind: "Deploy*"}}, Fields: []string{"spec.replicas"}}}, ""},
		{"ignored for everything", deployment, strings.Replace(deployed, "replicas: 2", "replicas: 5", 1), []Ignored{{Fields: []string{"spec.rep*"}}}, ""},
		{"ignored below", deployment, strings.Replace(deployed, "securityContext: {}", "securityContext: {runAsUser: 0}", 1), []Ignored{{Fields: []string{"spec.template.spec.securityContext"}}}, ""},
		{"ignored for others", deployment, strings.Replace(deployed, "replicas: 2", "replicas: 5", 1), []Ignored{{Objects: []Object{{Kind: "Deployment", Name: "b"}, {Group: "batch"}, {Version: "v2"}}, Fields: []string{"spec.replicas"}}},
			"spec.replicas=2>5"},
		{"a custom resource has no known defaults", "apiVersion: example.com/v1\nkind: Service\nmetadata: {name: a}\n", "apiVersion: example.com/v1\nkind: Service\nmetadata: {name: a, uid: u}\nspec: {type: ClusterIP}\n", nil,
			`spec.type=null>"ClusterIP"`},
		{"another document of the message", "kind: ConfigMap\n---\n---\n" + service, service, nil, ""},
		{"another namespace", strings.Replace(service, "name: a", "name: a, namespace: b", 1), strings.Replace(service, "name: a", "name: a, namespace: c", 1), nil, "error: " + errOther.Error()},
		{"another type", service, strings.Replace(service, "app: x", "app: {b: c}", 1), nil, `spec.selector.app="x">{"b":"c"}`},
		{"the types of a network policy", netpol, strings.Replace(netpol, "spec: {", "spec: {policyTypes: [Ingress], ", 1), nil, ""},
		{"other types of a network policy", netpol, strings.Replace(netpol, "spec: {", "spec: {policyTypes: [Egress], ", 1), nil, `spec.policyTypes.0=null>"Egress"`},
		{"the token of a pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n", `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  serviceAccountName: default
  containers: [{name: c, volumeMounts: [{name: kube-api-access-x, readOnly: true, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]
  volumes: [{name: kube-api-access-x, projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: kube-root-ca.crt}}, {downwardAPI: {}}]}}]
`, nil, ""},
		{"no token of a pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n", `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: c}]
  volumes: [{name: kube-api-access-x, hostPath: {path: /}}]
`, nil, `spec.volumes.0.hostPath.path=null>"/" spec.volumes.0.name=null>"kube-api-access-x"`},
	} {
		c2 := &Claim{Message: []byte(c.signed)}
		got := ""
		differences, err := c2.Compare(object(t, c.now), domain, c.ignored)
		for _, d := range differences {
			got += " " + d.Key + "=" + value.JSON(d.Before) + ">" + value.JSON(d.After)
		}
		if got = strings.TrimSpace(got); err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	got := JSON([]Difference{{Key: "spec.a", Before: "x", After: nil}})
	if want := `{"items":[{"key":"spec.a","values":{"after":null,"before":"x"}}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzRead tests that no annotation makes reading or comparing panic, and that unsigned content never counts as signed.
func FuzzRead(f *testing.F) {
	f.Add(base64.StdEncoding.EncodeToString(zip([]byte(service))), "YQ==")
	f.Add(base64.StdEncoding.EncodeToString(zip(archive(service))), "YQ==")
	o := object(f, service)
	f.Fuzz(func(t *testing.T, message, signature string) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{domain + "/message": message, domain + "/signature": signature}
		c, err := Read(o, domain)
		if err != nil {
			return
		}
		_, _ = c.Compare(o, domain, nil)
	})
}

func BenchmarkCompare(b *testing.B) {
	o := object(b, service)
	c := &Claim{Message: archive(service)}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := c.Compare(o, domain, nil); err != nil || len(d) > 0 {
			b.Fatal(d, err)
		}
	}
}

// TestLargeObjects tests that a comparison is bounded in time, and that fields that were not compared do not count as signed.
func TestLargeObjects(t *testing.T) {
	now := object(t, service)
	data := map[string]any{}
	for i := range 200_000 {
		data[strconv.Itoa(i)] = "x"
	}
	now["data"] = data
	c := &Claim{Message: []byte(service)}
	if d, err := c.Compare(now, domain, nil); err != nil || len(d) != maxDifferences {
		t.Errorf("%d differences, %v", len(d), err)
	}
	if d, err := c.Compare(now, domain, []Ignored{{Fields: []string{"data.*"}}}); err != nil && err != errTooManyFields || len(d) != 0 {
		t.Errorf("%d differences, %v", len(d), err)
	}
	now["aaa"] = "first"
	delete(now, "data")
	list := make([]any, 200_000)
	for i := range list {
		list[i] = map[string]any{"protocol": "TCP"}
	}
	now["spec"].(map[string]any)["ports"] = list
	delete(now, "aaa")
	if d, err := c.Compare(now, domain, nil); err == nil && len(d) == 0 {
		t.Error("a list of which not all was compared counts as signed")
	}
}
