package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/value"
)

func rolloutJSON(w io.Writer, p *rollout.Plan) error { return terminal.WriteJSON(w, p) }

// rolloutTable writes a plan for people: the namespaces, the resources that would be refused with their owners, the
// targets, the missing data, and the verdict at the end.
func rolloutTable(w io.Writer, p *rollout.Plan) error {
	title := "Policy " + p.Policy
	if p.Action != "" {
		title += " (" + p.Action + ")"
	}
	fmt.Fprintln(w, terminal.Plain(title))
	for _, rows := range [][][]string{namespaceRows(p), refusedRows(p), callerRows(p), targetRows(p)} {
		if len(rows) == 1 {
			continue
		}
		fmt.Fprintln(w)
		if err := columns(w, rows); err != nil {
			return err
		}
	}
	superseded := 0
	for _, n := range p.Namespaces {
		superseded += n.Superseded
	}
	if superseded > 0 {
		fmt.Fprintf(w, "\nNot counted: %s\n", terminal.Counted(superseded, "ReplicaSet of an earlier revision of its Deployment", "ReplicaSets of earlier revisions of their Deployments"))
	}
	if len(p.Lacks) > 0 {
		fmt.Fprintln(w, "\nNot known:")
		for _, l := range p.Lacks {
			fmt.Fprintln(w, "- "+terminal.Plain(l.What))
		}
	}
	return writeVerdict(w, p)
}

func writeVerdict(w io.Writer, p *rollout.Plan) error {
	text := map[rollout.Verdict]string{
		rollout.Safe: "Safe to enforce.", rollout.Unsafe: "Not safe to enforce:", rollout.Unknown: "It is not known whether it is safe to enforce:",
	}[p.Verdict]
	fmt.Fprintln(w, "\n"+text)
	for _, r := range p.Reasons {
		fmt.Fprintln(w, "- "+terminal.Plain(r))
	}
	if p.Verdict != rollout.Unsafe {
		return nil
	}
	var safe []string
	for _, n := range p.Namespaces {
		if n.Safe && n.Name != "" && n.Action != "Enforce" {
			safe = append(safe, n.Name)
		}
	}
	if len(safe) > 0 {
		fmt.Fprintln(w, terminal.Plain("These namespaces are safe, and failureActionOverrides can enforce the policy there: "+strings.Join(safe, ", ")))
	}
	return nil
}

func namespaceRows(p *rollout.Plan) [][]string {
	header := []string{"NAMESPACE", "TODAY", "RESOURCES", "VIOLATING", "ERRORS", "EXEMPT", "RATE", "SAFE"}
	counted := slices.ContainsFunc(p.Namespaces, func(n rollout.Namespace) bool { return n.Requests != nil })
	if counted {
		header = append(header, "REQUESTS", "REFUSED", "WOULD-REFUSE")
	}
	rows := [][]string{header}
	for _, n := range p.Namespaces {
		safe := "no"
		if n.Safe {
			safe = "yes"
		}
		row := []string{cmp.Or(n.Name, "-"), cmp.Or(n.Action, "-"), strconv.Itoa(n.Resources), strconv.Itoa(n.Violating), strconv.Itoa(n.Errors),
			strconv.Itoa(n.Exempt), fmt.Sprintf("%.1f%%", n.Rate), safe}
		if counted {
			row = append(row, strconv.Itoa(n.Requests.Evaluated), strconv.Itoa(n.Requests.Refused), strconv.Itoa(n.Requests.WouldRefuse))
		}
		rows = append(rows, row)
	}
	return rows
}

// refusedRows lists what would be refused. It combines the resources of one owner that violate the same rules.
func refusedRows(p *rollout.Plan) [][]string {
	type group struct{ namespace, owner, whose, rules string }
	count := map[group]int{}
	message := map[group]string{}
	var order []group
	for _, r := range p.Refused {
		g := group{namespace: cmp.Or(r.Resource.Namespace, "-"), owner: "? (" + r.Resource.Kind + "/" + r.Resource.Name + ")", whose: cmp.Or(r.Whose, "-")}
		if r.Owner != nil {
			g.owner = r.Owner.Kind + "/" + r.Owner.Name
		}
		var rules []string
		for _, v := range r.Rules {
			rules = append(rules, v.Rule)
		}
		g.rules = strings.Join(rules, ", ")
		if count[g] == 0 {
			order = append(order, g)
			message[g] = value.Clip(r.Rules[0].Message, messageWidth)
		}
		count[g]++
	}
	slices.SortStableFunc(order, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.owner, b.owner))
	})
	rows := [][]string{{"NAMESPACE", "OWNER", "WHOSE", "RESOURCES", "RULES", "MESSAGE"}}
	for _, g := range order {
		rows = append(rows, []string{g.namespace, g.owner, g.whose, strconv.Itoa(count[g]), g.rules, message[g]})
	}
	return rows
}

// callerRows lists the callers whose recorded requests violate the policy. It combines requests of one owner that violate the same rules.
func callerRows(p *rollout.Plan) [][]string {
	type group struct{ namespace, owner, whose, rules string }
	type line struct {
		users    []string
		requests int
		message  string
	}
	lines := map[group]*line{}
	var order []group
	for _, c := range p.Callers {
		end := c.Resource
		if c.Owner != nil {
			end = *c.Owner
		}
		g := group{namespace: cmp.Or(c.Resource.Namespace, "-"), owner: end.Kind + "/" + end.Name, whose: cmp.Or(c.Whose, "-")}
		var rules []string
		for _, v := range c.Rules {
			rules = append(rules, v.Rule)
		}
		g.rules = strings.Join(rules, ", ")
		l := lines[g]
		if l == nil {
			l = &line{message: value.Clip(c.Rules[0].Message, messageWidth)}
			lines[g] = l
			order = append(order, g)
		}
		l.requests += c.Requests
		for _, u := range c.Users {
			if !slices.Contains(l.users, u) {
				l.users = append(l.users, u)
			}
		}
	}
	rows := [][]string{{"NAMESPACE", "OWNER", "WHOSE", "REQUESTS", "BY", "RULES", "MESSAGE"}}
	for _, g := range order {
		l := lines[g]
		by := "-"
		if len(l.users) > 0 {
			by = l.users[0]
			if more := len(l.users) - 1; more > 0 {
				by += fmt.Sprintf(" and %d more", more)
			}
		}
		rows = append(rows, []string{g.namespace, g.owner, g.whose, strconv.Itoa(l.requests), by, g.rules, l.message})
	}
	return rows
}

func targetRows(p *rollout.Plan) [][]string {
	rows := [][]string{{"TARGET", "WANT", "HAVE", ""}}
	for _, t := range p.Targets {
		met := "not known"
		switch {
		case t.Met != nil && *t.Met:
			met = "ok"
		case t.Met != nil && t.Advice:
			met = "advice"
		case t.Met != nil:
			met = "MISS"
		}
		rows = append(rows, []string{t.Name, t.Want, t.Have, met})
	}
	return rows
}
