package match

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/policy"
)

// TestT16Names: comparing names, namespaces and users with wildcards is charged.
func TestT16Names(t *testing.T) {
	long := "*" + strings.Repeat("?", 200) + "b*"
	var patterns []string
	var subjects []subjectPattern
	for range 200 {
		patterns = append(patterns, long)
		s, _ := compileSubject("User", "", long)
		subjects = append(subjects, s)
	}
	r := &policy.Request{Review: policy.Review{Name: strings.Repeat("a", 250), Namespace: strings.Repeat("a", 60), User: &policy.User{Username: strings.Repeat("a", 250)}}}
	for name, compared := range map[string]test{"names": matchNames(patterns), "users": matchSubjects(subjects)} {
		m := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		of := budget.NewRequest()
		var a budget.Account
		of.Open(&a, t, true)
		m.Charge(&a)
		before := m.Left(1 << 40)
		if _, err := compared(budget.With(t.Context(), m), r); err != nil {
			t.Fatal(err)
		}
		if steps := before - m.Left(1<<40); steps < 200*200*250/8 {
			t.Errorf("%s: %d steps for 200 patterns of 200 bytes", name, steps)
		}
	}
}
