package settings

import (
	"strings"

	"ephor.invalid/ephor/internal/wildcard"
)

// users are the exclude lists.
type users struct{ names, groups, roles, clusterRoles userList }

// userList is one exclude list. Items that begin with `!` are inclusions: matching users are always evaluated.
type userList struct{ include, exclude []wildcard.Pattern }

func (l *userList) parse(v string) {
	*l = userList{}
	for _, item := range list(v) {
		if rest, ok := strings.CutPrefix(item, "!"); ok {
			l.include = append(l.include, wildcard.Compile(strings.TrimSpace(rest)))
		} else {
			l.exclude = append(l.exclude, wildcard.Compile(item))
		}
	}
}

func (l *userList) empty() bool { return len(l.include) == 0 && len(l.exclude) == 0 }

func (l *userList) includes(who ...string) bool { return matchesAny(l.include, who) }
func (l *userList) excludes(who ...string) bool { return matchesAny(l.exclude, who) }

func matchesAny(patterns []wildcard.Pattern, texts []string) bool {
	for _, p := range patterns {
		for _, t := range texts {
			if p.Match(t) {
				return true
			}
		}
	}
	return false
}

// Roles returns the roles (`namespace:name`) and cluster roles of a requester.
type Roles func() (roles, clusterRoles []string, err error)

// Excluded reports whether requests of the user are admitted without evaluation. It calls roles only if a list of roles is set. An error
// means that the roles are unknown.
func (s *Settings) Excluded(username string, groups []string, roles Roles) (bool, error) {
	u := &s.users
	needRoles := !u.roles.empty() || !u.clusterRoles.empty()
	if u.names.empty() && u.groups.empty() && !needRoles {
		return false, nil
	}
	var r, cr []string
	if needRoles && roles != nil {
		var err error
		if r, cr, err = roles(); err != nil {
			return false, err
		}
	}
	if u.names.includes(username) || u.groups.includes(groups...) || u.roles.includes(r...) || u.clusterRoles.includes(cr...) {
		return false, nil
	}
	return u.names.excludes(username) || u.groups.excludes(groups...) || u.roles.excludes(r...) || u.clusterRoles.excludes(cr...), nil
}

// NeedsRoles reports whether Excluded needs the requester's roles.
func (s *Settings) NeedsRoles() bool { return !s.users.roles.empty() || !s.users.clusterRoles.empty() }
