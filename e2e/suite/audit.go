package suite

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/charts/rights"
	"ephor.invalid/ephor/internal/devcluster"
)

// audit reads the API server's audit log of the controllers' requests.
type audit struct {
	log    *load.Audit
	dir    string // of the log, if it is not that of a shared control plane
	tables *rights.Tables
}

// newAudit reads which requests are listed. flags or open has to follow.
func newAudit() (*audit, error) {
	root, err := devcluster.Root()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "security", "rbac.md"))
	if err != nil {
		return nil, err
	}
	tables, err := rights.Parse(string(page))
	return &audit{tables: tables}, err
}

// flags returns the flags with which an API server writes the log.
func (a *audit) flags() (flags []string, err error) {
	if a.dir, err = os.MkdirTemp("", "ephor-audit-"); err != nil {
		return nil, err
	}
	a.log, flags, err = load.NewAudit(a.dir, Namespace)
	return flags, err
}

// open reads the log of a shared control plane from now on.
func (a *audit) open(dir string) (err error) {
	a.log, err = load.OpenAudit(dir)
	return err
}

// check returns an error with the requests of the controllers that docs/security/rbac.md does not list.
func (a *audit) check() error {
	if a.dir != "" {
		defer os.RemoveAll(a.dir)
	}
	asked, err := a.log.Next()
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	if len(asked) == 0 {
		return fmt.Errorf("the audit log holds no request of the accounts of the namespace %s", Namespace)
	}
	// One request of each type is sufficient to find its cause.
	unlisted := map[string]string{}
	for _, e := range asked {
		r := requestOf(e)
		if a.tables.Listed(r, Namespace) {
			continue
		}
		sort := r
		sort.Name = ""
		if sort.Namespace != "" && sort.Namespace != Namespace {
			sort.Namespace = "*"
		}
		unlisted[sort.String()] = fmt.Sprintf("%s (%s, answered with %d)", r, e.RequestURI, e.ResponseStatus.Code)
	}
	if len(unlisted) == 0 {
		return nil
	}
	return fmt.Errorf("the controllers made requests that docs/security/rbac.md does not list; list them there with their reason, or do without them:\n  %s",
		strings.Join(slices.Sorted(maps.Values(unlisted)), "\n  "))
}

// requestOf returns a request of the audit log in the format of the tables.
func requestOf(e load.Asked) rights.Request {
	account := e.User.Username[strings.LastIndexByte(e.User.Username, ':')+1:]
	r := rights.Request{Controller: strings.TrimPrefix(account, "kyverno-"), Verb: e.Verb}
	if e.ObjectRef.Resource == "" {
		r.Path = e.RequestURI
		return r
	}
	r.Group, r.Resource, r.Namespace, r.Name = e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name
	if e.ObjectRef.Subresource != "" {
		r.Resource += "/" + e.ObjectRef.Subresource
	}
	return r
}
