package admission

import (
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
)

// cleanupRoutes is the table of paths of the cleanup controller, whose /validate reviews cleanup policies.
var cleanupRoutes = table{rows: map[string]*route{
	"/validate":  {handle: (*Server).reviewCleanup},
	"/verifyttl": {handle: (*Server).reviewTTL},
}}

// NewCleanup returns the Server of the cleanup controller: it reviews cleanup policies and TTL labels, and evaluates no
// resources. Options.Review.Accounts.Cleanup is the account that deletes.
func NewCleanup(o Options, root world.Root, cluster Cluster, ready func() error) *Server {
	s := New(o, catalog.New().Snapshot, &settings.Store{}, root, cluster, ready)
	s.routes = cleanupRoutes
	return s
}
