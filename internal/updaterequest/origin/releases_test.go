package origin

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
)

// earlierEntry and earlierRule are what commit 14a526b2 reads and writes. It drops what it does not know.
type earlierEntry struct {
	mark.Claim
	Object      mark.Object `json:"object"`
	From        mark.Object `json:"from,omitzero"`
	Version     string      `json:"version,omitempty"`
	FromVersion string      `json:"fromVersion,omitempty"`
}

type earlierRule struct {
	Kind        string `json:"kind,omitempty"`
	Policy      string `json:"policy"`
	Rule        string `json:"rule"`
	Synchronize bool   `json:"synchronize,omitempty"`
	Orphan      bool   `json:"orphan,omitempty"`
	Makes       []Made `json:"makes"`
	KeepCopies  bool   `json:"keepCopies,omitempty"`
}

// earlier returns a cluster with the ConfigMaps that commit 14a526b2 wrote.
func earlier(t *testing.T) client.Client {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var objects []corev1.ConfigMap
	if err := json.Unmarshal(read("objects-14a526b2.json"), &objects); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyverno", Name: RulesName}, Data: map[string]string{rulesKey: string(read("rules-14a526b2.json"))},
	})
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithLists(&corev1.ConfigMapList{Items: objects}).Build()
}

// rewrite writes the ConfigMaps again, as a replica of commit 14a526b2 does that adds an object.
func rewrite(t *testing.T, c client.Client, add *earlierEntry) (entries map[string]earlierEntry, rules []earlierRule) {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	entries = map[string]earlierEntry{}
	for i := range list.Items {
		cm := &list.Items[i]
		if cm.Name == RulesName {
			if err := json.Unmarshal([]byte(cm.Data[rulesKey]), &rules); err != nil {
				t.Fatal(err)
			}
			cm.Data[rulesKey] = mustJSON(t, rules)
		} else {
			stored, err := decode(cm.BinaryData[contentKey])
			if err != nil {
				t.Fatal(err)
			}
			var kept []earlierEntry
			if err := json.Unmarshal([]byte(mustJSON(t, slices.Collect(maps.Values(stored)))), &kept); err != nil {
				t.Fatal(err)
			}
			if n, _ := ShardOf(cm.Name); add != nil && n == shardOf(add.Object.UID) {
				kept = append(kept, *add)
			}
			again := map[string]*Entry{}
			for _, e := range kept {
				entries[e.Object.UID] = e
				again[e.Object.UID] = &Entry{Claim: e.Claim, Object: e.Object, From: e.From, Version: e.Version, FromVersion: e.FromVersion}
			}
			if cm.BinaryData[contentKey], err = encode(again); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	return entries, rules
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The record of commit 14a526b2 is read as it is. Replicas of both releases add to it, and after a downgrade all of it is read.
func TestRecordOfAnEarlierRelease(t *testing.T) {
	c := earlier(t)
	l := New(Options{Client: c, Namespace: "kyverno", Log: slog.New(slog.DiscardHandler)})
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	uid := func(n string) string { return "33333333-0000-0000-0000-00000000000" + n }
	for n, want := range map[string]Rule{
		"0": {policy.ID{Kind: "ClusterPolicy", Name: "defaults"}, "quota"}, "1": {policy.ID{Kind: "ClusterPolicy", Name: "defaults"}, "pull-secret"},
		"2": {policy.ID{Kind: "Policy", Namespace: "team", Name: "own"}, "asked"}, "3": {policy.ID{Kind: "GeneratingPolicy", Name: "cel"}, "cel"},
		"4": {policy.ID{Kind: "ClusterPolicy", Name: "gone"}, "r"},
	} {
		if e, ok := l.Object(uid(n)); !ok || e.Rule() != want || e.Trigger.Name != "team" || e.Version == "" || e.Asked != (n == "2") {
			t.Errorf("entry %s: %v, %+v", n, ok, e)
		}
	}
	if copies := l.OfSource("22222222-0000-0000-0000-000000000001"); len(copies) != 1 || copies[0].FromVersion != "7" || copies[0].From.Name != "pull" {
		t.Errorf("copies: %+v", copies)
	}
	known, err := l.LoadRules(t.Context())
	if err != nil || len(known) != 5 || !known[2].Orphan || !known[3].KeepCopies || !known[1].Makes[1].Source || known[4].Rule().ID.Name != "gone" {
		t.Fatalf("%v: %+v", err, known)
	}
	// Both releases write.
	ours, _ := l.Object(uid("0"))
	ours.Object.UID, ours.Plan = uid("a"), "plan"
	l.Add(ours)
	l.Drop(uid("4"))
	known[4].Again = 1
	if err := l.StoreRules(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	store(t, l)
	theirs := earlierEntry{Claim: ours.Claim, Object: ours.Object, Version: "9"}
	theirs.Object.UID = uid("b")
	entries, rules := rewrite(t, c, &theirs)
	if got, want := slices.Sorted(maps.Keys(entries)), []string{uid("0"), uid("1"), uid("2"), uid("3"), uid("a"), uid("b")}; !slices.Equal(got, want) || len(rules) != 5 {
		t.Errorf("the earlier release reads the objects %q and the rules %+v", got, rules)
	}
	for n := range Shards {
		if err := l.Stored(t.Context(), Name(n), "another"); err != nil {
			t.Fatal(err)
		}
	}
	again := New(Options{Client: c, Namespace: "kyverno", Log: slog.New(slog.DiscardHandler)})
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Record{l, again} {
		if r.Len() != 6 {
			t.Errorf("%d entries", r.Len())
		}
		for id, e := range entries {
			if got, ok := r.Object(id); !ok || got.Claim != e.Claim || got.Version != e.Version {
				t.Errorf("%s: %v, %+v", id, ok, got)
			}
		}
	}
	known[4].Again = 0
	if got, err := again.LoadRules(t.Context()); err != nil || !reflect.DeepEqual(got, known) {
		t.Errorf("%v: %+v, want %+v", err, got, known)
	}
}
