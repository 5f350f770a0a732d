package jmespath

import (
	"fmt"
	"net/netip"
	"net/url"

	"ephor.invalid/ephor/internal/world"
)

func init() {
	register(Function{
		Name: "is_external_url", Args: one(String), Returns: []Type{Boolean},
		Doc: "Whether no address of the host of a URL is a loopback, private or link-local address. A host name is resolved; it is an error if that fails.",
		Examples: []Example{
			{Expression: "is_external_url('https://example.com/x')", Result: `true`},
			{Expression: "is_external_url('https://internal.example.com')", Result: `false`},
			{Expression: "is_external_url('http://10.0.0.1:8080')", Result: `false`},
		},
		call: func(env *Env, args []any) (any, error) {
			u, err := url.Parse(args[0].(string))
			if err != nil {
				return nil, err
			}
			host := u.Hostname()
			if ip, err := netip.ParseAddr(host); err == nil {
				return isExternal(ip), nil
			}
			if env.World.Names == nil {
				return nil, fmt.Errorf("JMESPath function 'is_external_url': resolving %q is %w", host, world.ErrUnavailable)
			}
			addresses, err := env.World.Names(env.Meter.Context(), world.Host(host))
			if err != nil {
				return nil, &worldError{err}
			}
			for _, ip := range addresses {
				if !isExternal(ip) {
					return false, nil
				}
			}
			return true, nil
		},
	})
}

func isExternal(ip netip.Addr) bool {
	ip = ip.Unmap()
	return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsLinkLocalMulticast()
}
