package simulation

import (
	"fmt"
	"slices"
	"strings"
)

// check returns what is not as it should be when nothing goes wrong any more.
func (s *sim) check() (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	has := func(name string) bool {
		return slices.Contains(s.plan.policies, name) && s.server.Object(clusterPolicies, "", name) != nil
	}
	maps := s.server.Objects(configMaps)
	byKey := map[string]map[string]any{}
	for _, o := range maps {
		byKey[text(o, "metadata", "namespace")+"/"+text(o, "metadata", "name")] = o
	}
	label := func(o map[string]any, name string) string { return text(o, "metadata", "labels", name) }
	if s.plan.replicas["background"] > 0 {
		if slices.Contains(s.plan.policies, "copy") {
			for key, o := range byKey {
				ns, name, _ := strings.Cut(key, "/")
				made := byKey[ns+"/made-"+name]
				switch {
				case label(o, "of") != "":
				case strings.HasPrefix(name, "made-"):
					trigger := byKey[ns+"/"+strings.TrimPrefix(name, "made-")]
					if !has("copy") || trigger == nil || label(trigger, "kind") != "trigger" {
						bad("%s exists without its trigger or policy", key)
					}
				case label(o, "kind") == "trigger" && has("copy"):
					if want := text(o, "data", "v"); made == nil || text(made, "data", "v") != want {
						bad("%s/made-%s has %q, want %q", ns, name, text(made, "data", "v"), want)
					}
				}
			}
		}
		if has("append") {
			lacks, triggers := []string{}, map[string]bool{}
			lack := func(trigger, format string, args ...any) {
				lacks, triggers[trigger] = append(lacks, fmt.Sprintf(format, args...)), true
			}
			for key, o := range byKey {
				ns, name, _ := strings.Cut(key, "/")
				if label(o, "kind") == "log" || name == "created" {
					// Each version of a trigger is appended at most once; what matches creations, at most once for each of them.
					appended, again := map[string]int{}, 0
					for _, entry := range strings.Split(text(o, "data", "log"), ",") {
						id, asked := entry, s.asked
						if name == "created" {
							id, _, _ = strings.Cut(entry, ":")
							asked = s.created
						}
						if appended[id]++; entry != "" && appended[id] > asked[ns+"/"+id] {
							again++
						}
					}
					// A write of the target whose answer was lost is made again if the target has changed meanwhile, or by another replica.
					if unsure := s.unanswered("/api/v1/namespaces/" + ns + "/configmaps/" + name); again > unsure {
						bad("%s has %d entries too many, after %d writes without an answer: %s", key, again, unsure, text(o, "data", "log"))
					}
				}
				if label(o, "kind") == "appender" {
					if entry := name + ":" + text(o, "data", "v") + ","; !strings.Contains(","+text(byKey[ns+"/log"], "data", "log"), ","+entry) {
						lack(key, "%s/log lacks %s: %s", ns, entry, text(byKey[ns+"/log"], "data", "log"))
					}
					if s.created[key] > 0 && !strings.Contains(","+text(byKey[ns+"/created"], "data", "log"), ","+name+":") {
						lack(key, "%s/created lacks an entry of %s: %s", ns, name, text(byKey[ns+"/created"], "data", "log"))
					}
					if entry := name + ":" + text(o, "data", "v") + ","; !strings.Contains(","+text(byKey[ns+"/log2"], "data", "log"), ","+entry) {
						lack(key, "%s/log2 lacks %s: %s", ns, entry, text(byKey[ns+"/log2"], "data", "log"))
					}
				}
			}
			// A request is answered although its UpdateRequest cannot be written, and a replica that crashes until then loses it.
			if len(triggers) > s.unstored() {
				problems = append(problems, lacks...)
			}
		}
		if has("clone") {
			want := text(byKey["a/source"], "data", "v")
			for _, ns := range s.server.Objects(allNamespaces) {
				if label(ns, "clone") != "yes" || meta(ns)["deletionTimestamp"] != nil {
					continue
				}
				name := text(ns, "metadata", "name")
				if got := byKey[name+"/cloned"]; got == nil || text(got, "data", "v") != want {
					bad("%s/cloned has %q, want %q", name, text(got, "data", "v"), want)
				}
			}
		}
		if has("widget-copy") {
			for _, o := range s.server.Objects(widgets) {
				made := "made-" + text(o, "metadata", "name")
				ns, want := text(o, "metadata", "namespace"), text(o, "spec", "v")
				if got := byKey[ns+"/"+made]; got == nil || text(got, "data", "v") != want {
					bad("%s/%s has %q, want %q", ns, made, text(got, "data", "v"), want)
				}
			}
		}
		for _, u := range s.server.Objects(updateRequests) {
			if text(u, "spec", "resource", "kind") == "Widget" && text(u, "status", "state") == "Failed" {
				continue // its kind was removed, or away for some minutes: it is kept for an hour
			}
			bad("UpdateRequest %s is left: %v", text(u, "metadata", "name"), u["status"])
		}
	}
	if s.plan.replicas["reports"] > 0 {
		problems = append(problems, s.checkReports(byKey, has)...)
	}
	if s.plan.replicas["cleanup"] > 0 {
		for key, o := range byKey {
			if label(o, "kind") == "swept" || label(o, "cleanup.kyverno.io/ttl") != "" {
				bad("%s should be deleted", key)
			}
		}
	}
	if s.plan.replicas["admission"] > 0 {
		problems = append(problems, s.checkWebhooks(has)...)
	}
	return problems
}

// unstored returns the number of UpdateRequests that replicas lost, since they ended before they could write them.
func (s *sim) unstored() (n int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, line := range s.log.lines {
		var lost int
		if _, text, ok := strings.Cut(line, "stopped with work that was not stored updateRequests="); ok {
			_, _ = fmt.Sscan(text, &lost)
			n += lost
		}
	}
	return n
}

// unanswered returns how many writes of an object were carried out and not answered.
func (s *sim) unanswered(path string) (n int) {
	for _, c := range s.server.Calls() {
		if c.Handled && c.Err != nil && c.Request.Writes() && c.Request.Path == path {
			n++
		}
	}
	return n
}

// checkReports compares reports with the results that the objects have now.
func (s *sim) checkReports(byKey map[string]map[string]any, has func(string) bool) (problems []string) {
	labelled, everything, flagged := has("labelled"), has("everything"), has("flagged")
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	want := map[string]map[string]string{} // UID → policy → result
	names := map[string]string{}
	verdict := func(ok bool) string {
		if ok {
			return "pass"
		}
		return "fail"
	}
	for key, o := range byKey {
		if ns, _, _ := strings.Cut(key, "/"); ns == namespace {
			continue
		}
		uid := text(o, "metadata", "uid")
		names[uid] = key
		want[uid] = map[string]string{}
		if labelled {
			want[uid]["labelled"] = verdict(text(o, "metadata", "labels", "team") != "")
		}
		if flagged && strings.HasPrefix(key, "a/") {
			want[uid]["flagged"] = verdict(byKey["c/flag"] == nil)
		}
	}
	for _, o := range s.server.Objects(widgets) {
		uid := text(o, "metadata", "uid")
		names[uid] = "widget " + text(o, "metadata", "name")
		want[uid] = map[string]string{}
		if everything {
			spec, _ := o["spec"].(map[string]any)
			size, _ := spec["size"].(int64)
			want[uid]["everything"] = verdict(size > 0)
		}
	}
	reported := map[string]bool{}
	for _, r := range s.server.Objects(policyReports) {
		uid := text(r, "scope", "uid")
		if text(r, "metadata", "namespace") == namespace {
			continue
		}
		if want[uid] == nil {
			bad("report %s/%s is about %s, which does not exist", text(r, "metadata", "namespace"), text(r, "metadata", "name"), text(r, "scope", "name"))
			continue
		}
		if reported[uid] {
			bad("%s has two reports", names[uid])
		}
		reported[uid] = true
		got := map[string]string{}
		results, _ := r["results"].([]any)
		for _, e := range results {
			e, _ := e.(map[string]any)
			got[text(e, "policy")] = text(e, "result")
		}
		if fmt.Sprint(got) != fmt.Sprint(want[uid]) {
			bad("the report of %s has %v, want %v", names[uid], got, want[uid])
		}
	}
	for uid, w := range want {
		if len(w) > 0 && !reported[uid] {
			bad("%s has no report", names[uid])
		}
	}
	return problems
}

// checkWebhooks compares the webhook configurations with the policies.
func (s *sim) checkWebhooks(has func(string) bool) (problems []string) {
	all := append(s.server.Objects(validatingConfigurations), s.server.Objects(mutatingConfigurations)...)
	var found []string
	covers := false
	for _, o := range all {
		found = append(found, text(o, "metadata", "name"))
		webhooks, _ := o["webhooks"].([]any)
		for _, w := range webhooks {
			if strings.Contains(fmt.Sprint(w), "configmaps") {
				covers = true
			}
		}
	}
	if wanted := has("copy") || has("append") || has("labelled") || has("flagged"); covers != wanted && !has("clone") && !has("widget-copy") {
		problems = append(problems, fmt.Sprintf("webhooks for ConfigMaps: %v, want %v; there are %v", covers, wanted, found))
	}
	return problems
}
