package trust

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/mark"
)

// adoptCommand runs `ephor adopt` as administrator.
func adoptCommand(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	if code := cli.Main(append([]string{"ephor", "adopt", "--kubeconfig", cluster.Kubeconfig, "-n", suite.Namespace}, args...), root); code != 0 {
		t.Fatalf("ephor adopt %q: exit code %d", args, code)
	}
	return out.String()
}

// keyOfMark returns the ID of the key in the mark of an object; empty without a mark.
func keyOfMark(t *testing.T, args ...string) string {
	t.Helper()
	text := cluster.Must(t, "", append([]string{"get", "-o", `jsonpath={.metadata.annotations.` + strings.ReplaceAll(mark.Annotation, ".", `\.`) + `}`}, args...)...)
	var m struct{ Seal string }
	if text != "" {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	_, rest, _ := strings.Cut(m.Seal, ".")
	id, _, _ := strings.Cut(rest, ".")
	return id
}

// T2: objects from the time before marks, or whose key is lost, are adopted if their labels can be proved, and left alone otherwise.
// Adoption deletes no object. Removing a mark does not end synchronization.
func TestT2Adoption(t *testing.T) {
	const policy = "t2-adopted"
	rename := strings.NewReplacer("{name: t2}", "{name: t2-adopted}", "{t2: \"yes\"}", "{t2-adopted: \"yes\"}", "t2-source", "t2-adopted-source").Replace
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t2-team, labels: {t2-adopted: 'yes'}}\n"
	cluster.Must(t, namespace, "create", "-f", "-")
	t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "namespace", "t2-team", "--wait=false") })
	cluster.Apply(t, rename(t2Policy))
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy", policy)
	trigger := uidOf(t, "namespace", "t2-team")
	source := uidOf(t, "configmap", "settings", "-n", "t2-adopted-source")
	deny := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: %s, labels: " + forgedLabels(policy, "deny", "Namespace", "", trigger, "") + "}\nspec: {podSelector: {}}\n"
	settings := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: t2-team, labels: " +
		forgedLabels(policy, "settings", "Namespace", "", trigger, ", generate.kyverno.io/source-uid: "+source) + "}\ndata: {k: old}\n"
	cluster.Must(t, fmt.Sprintf(deny, "default-deny", "t2-team")+"---\n"+settings, "create", "-f", "-")
	if _, err := asMallory(t, fmt.Sprintf(deny, "forged", "mallory"), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cluster.Try(t, "", "delete", "networkpolicy", "forged", "-n", "mallory", "--ignore-not-found")
	})
	made := [][]string{{"networkpolicy", "default-deny", "-n", "t2-team"}, {"configmap", "settings", "-n", "t2-team"}}
	forged := []string{"networkpolicy", "forged", "-n", "mallory"}
	var uids []string
	for _, o := range made {
		uids = append(uids, uidOf(t, o...))
	}
	markedAnew := func(what string, args []string, before string) (key string) {
		t.Helper()
		suite.Until(t, strings.Join(args, " ")+" is marked "+what, func() error {
			if key = keyOfMark(t, args...); key == "" || key == before {
				return fmt.Errorf("its key is %q", key)
			}
			return nil
		})
		return key
	}

	r := cluster.Start(t, devcluster.Background)
	first := markedAnew("with the first key", made[0], "")
	markedAnew("with the first key", made[1], "")
	suite.Until(t, "an event names the object that is left alone", func() error {
		out := cluster.Must(t, "", "get", "events.events.k8s.io", "-A", "-o", `jsonpath={range .items[*]}{.note}{"\n"}{end}`)
		if want := "policy t2-adopted/deny error: networking.k8s.io/v1/NetworkPolicy/mallory/forged is not changed"; !strings.Contains(out, want) {
			return fmt.Errorf("there are only\n%s", out)
		}
		return nil
	})
	if key := keyOfMark(t, forged...); key != "" {
		t.Error("an object with forged labels is adopted")
	}
	cluster.Must(t, "", append(append([]string{"annotate"}, made[0]...), mark.Annotation+"-")...)
	markedAnew("again", made[0], "")
	workDone(t, policy)
	suite.Stop(t, r)

	// The key is lost.
	cluster.Must(t, "", "delete", "secret", "ephor-generated-marks", "-n", suite.Namespace)
	r = cluster.Start(t, devcluster.Background)
	second := markedAnew("with the second key", made[0], first)
	markedAnew("with the second key", made[1], first)
	if out := adoptCommand(t); !strings.Contains(out, "unproved  NetworkPolicy  mallory    forged  t2-adopted  deny  Namespace/"+trigger) || strings.Contains(out, "t2-team ") {
		t.Errorf("`ephor adopt` prints\n%s", out)
	}
	suite.Stop(t, r)

	// Marks of an older key are renewed.
	if out := adoptCommand(t, "--rotate-key"); !strings.HasPrefix(out, "new marks are made with the key ") {
		t.Errorf("`ephor adopt --rotate-key` prints\n%s", out)
	}
	if out := adoptCommand(t); !strings.Contains(out, "older key  NetworkPolicy  t2-team    default-deny") {
		t.Errorf("`ephor adopt` prints\n%s", out)
	}
	cluster.Start(t, devcluster.Background)
	markedAnew("with the third key", made[0], second)
	markedAnew("with the third key", made[1], second)
	if out := adoptCommand(t, "--mark", "NetworkPolicy/mallory/forged"); out != "marked NetworkPolicy/mallory/forged\n" {
		t.Errorf("`ephor adopt --mark` prints\n%s", out)
	}
	for i, o := range made {
		if got := uidOf(t, o...); got != uids[i] {
			t.Errorf("%q: its UID is %q, and was %q", o, got, uids[i])
		}
	}

	// A marked object is deleted with its trigger.
	cluster.Must(t, "", "label", "namespace", "t2-team", "t2-adopted-")
	for _, o := range append(made, forged) {
		suite.Until(t, strings.Join(o, " ")+" is deleted", func() error { return equal(uidOf(t, o...), "") })
	}
}
