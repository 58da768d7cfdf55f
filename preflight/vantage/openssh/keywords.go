package openssh

import "slices"

// Class says what a keyword of ssh_config means for a login by this program.
type Class int

// The classes. Only Unused and Instead are ever named to the operator.
const (
	// Honoured: the login does what OpenSSH does.
	Honoured Class = iota
	// Harmless: OpenSSH does something else with it than to log in (forwarding, terminals, what it prints).
	Harmless
	// Unused: it changes where a login goes or how; it is always named.
	Unused
	// Instead: another way to be let in, or to accept a host; it matters to a login that fails, and is named there.
	Instead
	// Retired: OpenSSH accepts and ignores it.
	Retired
)

// shape is how the arguments of a keyword are read.
type shape int

const (
	one   shape = iota // one argument; the first value counts
	list               // one or more arguments; the first list counts
	each               // one argument; all values count
	line               // the rest of the line as it is; the first value counts
	bool2              // yes or no, with yes, true, no and false; the first value counts
)

// keyword is one row of ssh_config(5).
type keyword struct {
	class Class
	shape shape
	// idle are values (in lower case) with which a keyword that is not honoured changes nothing, as its default.
	idle []string
}

// aliases are other names of keywords.
var aliases = map[string]string{
	"dsaauthentication": "pubkeyauthentication", "identityfile2": "identityfile",
	"challengeresponseauthentication": "kbdinteractiveauthentication",
	"skeyauthentication":              "kbdinteractiveauthentication",
	"tisauthentication":               "kbdinteractiveauthentication",
	"hostbasedkeytypes":               "hostbasedacceptedalgorithms",
	"pubkeyacceptedkeytypes":          "pubkeyacceptedalgorithms",
	"smartcarddevice":                 "pkcs11provider", "keepalive": "tcpkeepalive",
}

// keywords are all that ssh_config(5) has, up to OpenSSH 10, with those of Debian, Fedora and macOS, in lower case.
var keywords = map[string]keyword{
	"addressfamily": {}, "bindaddress": {}, "bindinterface": {},
	"canonicaldomains": {shape: list}, "canonicalizefallbacklocal": {shape: bool2}, "canonicalizehostname": {},
	"canonicalizemaxdots": {}, "canonicalizepermittedcnames": {shape: list},
	"casignaturealgorithms": {}, "certificatefile": {shape: each}, "checkhostip": {shape: bool2}, "ciphers": {},
	"connecttimeout": {}, "globalknownhostsfile": {shape: list}, "hashknownhosts": {shape: bool2},
	"hostkeyalgorithms": {}, "hostkeyalias": {}, "hostname": {}, "identitiesonly": {shape: bool2},
	"identityagent": {}, "identityfile": {shape: each}, "ignoreunknown": {}, "kexalgorithms": {},
	"knownhostscommand": {shape: line}, "macs": {}, "port": {}, "preferredauthentications": {},
	"proxycommand": {shape: line}, "proxyjump": {}, "pubkeyacceptedalgorithms": {}, "pubkeyauthentication": {},
	"refuseconnection": {}, "requiredrsasize": {}, "revokedhostkeys": {shape: list}, "tag": {}, "user": {},
	"userknownhostsfile": {shape: list},

	"proxyusefdpass": {Unused, bool2, []string{"no", "false"}},

	"connectionattempts":               {Instead, one, []string{"1"}},
	"controlpath":                      {Instead, one, []string{"none"}},
	"enablesshkeysign":                 {Instead, bool2, []string{"no", "false"}},
	"gssapiauthentication":             {Instead, bool2, []string{"no", "false"}},
	"gssapikeyexchange":                {Instead, bool2, []string{"no", "false"}},
	"hostbasedauthentication":          {Instead, bool2, []string{"no", "false"}},
	"ipqos":                            {Instead, list, nil},
	"kbdinteractiveauthentication":     {Instead, bool2, []string{"no", "false"}},
	"nohostauthenticationforlocalhost": {Instead, bool2, []string{"no", "false"}},
	"passwordauthentication":           {Instead, bool2, []string{"no", "false"}},
	"pkcs11provider":                   {Instead, one, []string{"none"}},
	"securitykeyprovider":              {Instead, one, []string{"internal"}},
	"stricthostkeychecking":            {Instead, one, []string{"yes", "true", "ask"}},
	"verifyhostkeydns":                 {Instead, one, []string{"no", "false", "ask"}},

	"addkeystoagent": {class: Harmless, shape: list}, "batchmode": {class: Harmless, shape: bool2},
	"channeltimeout": {class: Harmless, shape: list}, "clearallforwardings": {class: Harmless, shape: bool2},
	"compression": {class: Harmless, shape: bool2}, "controlmaster": {class: Harmless},
	"controlpersist": {class: Harmless}, "dynamicforward": {class: Harmless}, "enableescapecommandline": {class: Harmless},
	"escapechar": {class: Harmless}, "exitonforwardfailure": {class: Harmless}, "fingerprinthash": {class: Harmless},
	"forkafterauthentication": {class: Harmless}, "forwardagent": {class: Harmless}, "forwardx11": {class: Harmless},
	"forwardx11timeout": {class: Harmless}, "forwardx11trusted": {class: Harmless}, "gatewayports": {class: Harmless},
	"gssapiclientidentity": {class: Harmless}, "gssapidelegatecredentials": {class: Harmless},
	"gssapikexalgorithms": {class: Harmless}, "gssapirenewalforcesrekey": {class: Harmless},
	"gssapiserveridentity": {class: Harmless}, "gssapitrustdns": {class: Harmless},
	"hostbasedacceptedalgorithms": {class: Harmless}, "kbdinteractivedevices": {class: Harmless},
	"localcommand": {class: Harmless, shape: line}, "localforward": {class: Harmless, shape: list},
	"loglevel": {class: Harmless}, "logverbose": {class: Harmless, shape: list},
	"numberofpasswordprompts": {class: Harmless}, "obscurekeystroketiming": {class: Harmless},
	"permitlocalcommand": {class: Harmless}, "permitremoteopen": {class: Harmless, shape: list},
	"protocolkeepalives": {class: Harmless}, "rekeylimit": {class: Harmless, shape: list},
	"remotecommand": {class: Harmless, shape: line}, "remoteforward": {class: Harmless, shape: list},
	"requesttty": {class: Harmless}, "sendenv": {class: Harmless, shape: list},
	"serveralivecountmax": {class: Harmless}, "serveraliveinterval": {class: Harmless}, "sessiontype": {class: Harmless},
	"setenv": {class: Harmless, shape: list}, "setuptimeout": {class: Harmless}, "stdinnull": {class: Harmless},
	"streamlocalbindmask": {class: Harmless}, "streamlocalbindunlink": {class: Harmless},
	"syslogfacility": {class: Harmless}, "tcpkeepalive": {class: Harmless}, "tunnel": {class: Harmless},
	"tunneldevice": {class: Harmless}, "updatehostkeys": {class: Harmless}, "usekeychain": {class: Harmless},
	"versionaddendum": {class: Harmless, shape: line}, "visualhostkey": {class: Harmless},
	"warnweakcrypto": {class: Harmless, shape: list}, "xauthlocation": {class: Harmless},

	"afstokenpassing": {class: Retired, shape: line}, "cipher": {class: Retired, shape: line},
	"compressionlevel": {class: Retired, shape: line}, "fallbacktorsh": {class: Retired, shape: line},
	"globalknownhostsfile2": {class: Retired, shape: line}, "kerberosauthentication": {class: Retired, shape: line},
	"kerberostgtpassing": {class: Retired, shape: line}, "protocol": {class: Retired, shape: line},
	"rhostsauthentication": {class: Retired, shape: line}, "rhostsrsaauthentication": {class: Retired, shape: line},
	"rsaauthentication": {class: Retired, shape: line}, "useprivilegedport": {class: Retired, shape: line},
	"userknownhostsfile2": {class: Retired, shape: line}, "useroaming": {class: Retired, shape: line},
	"usersh": {class: Retired, shape: line},
}

// ClassOf returns the class of a keyword in lower case; false if ssh_config has no such keyword. Host, Match and
// Include are Honoured.
func ClassOf(name string) (Class, bool) {
	if name == "host" || name == "match" || name == "include" {
		return Honoured, true
	}
	if real, ok := aliases[name]; ok {
		name = real
	}
	k, ok := keywords[name]
	return k.class, ok
}

// idles reports whether a keyword changes nothing with this value.
func (k keyword) idles(value string) bool { return slices.Contains(k.idle, value) }
