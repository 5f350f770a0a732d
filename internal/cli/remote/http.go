package remote

import (
	"sync"

	"github.com/ephor-dev/ephor/internal/apicall"
	"github.com/ephor-dev/ephor/internal/world"
)

// HTTP answers the requests of CEL policies from the network.
var HTTP = sync.OnceValue(func() world.HTTP {
	s, err := apicall.NewServices(apicall.ServiceOptions{Block: apicall.DefaultBlocklist})
	if err != nil {
		return nil // the options are constant
	}
	return s
})
