package ops

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/profile"
)

// CheckProfile returns the profile of machines of which nothing is known but how they are reached: no agent, no
// allocation, and no platform. api is the URL of an API that they use, "" for none: names, connections and certificates
// are checked, and no request is sent. of has further settings of the operator's own: logins, trust, budgets, policy.
func CheckProfile(of profile.Profile, api string) profile.Profile {
	p := profile.Profile{
		Kind: profile.KindSSHOnly, SSH: of.SSH, Nodes: of.Nodes, NodeNameServers: of.NodeNameServers,
		Trust: profile.Trust{OperatorCA: of.Trust.OperatorCA}, Policy: of.Policy, Budgets: of.Budgets, GPU: of.GPU,
		Agent: profile.Agent{Present: new(bool)}, Allocation: profile.Allocation{Present: new(bool)},
		Mapping: profile.Mapping{Paths: profile.NoPaths()},
	}
	if api != "" {
		p.Kind, p.APIBase = profile.KindSSHHTTPS, api
	}
	return p
}

// CheckHost splits [USER@]HOST, as ssh takes it. An error says what is wrong with it.
func CheckHost(word string) (user, host string, err error) {
	host = word
	if i := strings.LastIndexByte(word, '@'); i >= 0 {
		user, host = word[:i], word[i+1:]
		if user == "" {
			return "", "", fmt.Errorf("%q has no user before the @", word)
		}
	}
	switch {
	case host == "":
		err = errors.New("a HOST is empty")
	case strings.HasPrefix(host, "-"):
		err = fmt.Errorf("%q begins with -: no host does", host)
	case strings.Contains(host, "://"):
		err = fmt.Errorf("%q is a URL: give the name that ssh takes, and --api for an API", host)
	case strings.ContainsAny(host, " \t\r\n/\\'\"`$&;|<>(){}*?!#%,"):
		err = fmt.Errorf("%q cannot be a host: it has characters that no name or address has", host)
	case strings.ContainsAny(user, " \t\r\n/'\"`$&;|<>(){}*?!#:") || strings.HasPrefix(user, "-"):
		err = fmt.Errorf("%q cannot be a user", user)
	default:
		err = profile.CheckID(host)
	}
	return user, host, err
}
