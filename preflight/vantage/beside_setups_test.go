package vantage

// setups are ways to be configured, and whether OpenSSH's client logs in.
var setups = map[string]setup{
	"plain":            {works: true},
	"equals":           {config: "  IdentityFile=DIR/id\n  IdentitiesOnly = yes", works: true},
	"quotes":           {config: "  \"IdentityFile\" \"DIR/id\"", works: true},
	"single quotes":    {config: "  IdentityFile 'DIR/id'", works: true},
	"trailing comment": {config: "  IdentityFile DIR/id # mine", works: true},
	"bad keyword":      {config: "  NoSuchKeyword yes"},
	"ignored unknown":  {config: "  IgnoreUnknown NoSuch*\n  NoSuchKeyword yes", works: true},
	"extra argument":   {config: "  Port 22 23"},
	"bad number":       {config: "  Port 99999"},
	"bad yes":          {config: "  IdentitiesOnly maybe"},
	"bad cipher":       {config: "  Ciphers nosuch"},
	"open quote":       {config: "  IdentityFile \"DIR/id"},
	"bad in another block": {raw: "Host other\n" +
		"  NoSuchKeyword yes\nHost node\n" +
		"  HostName 127.0.0.1\n" +
		"  Port PORT:plain;\n"},
	"retired":    {config: "  Protocol 2\n  UseRoaming no\n  RSAAuthentication yes", works: true},
	"first wins": {config: "  IdentityFile DIR/id\n  User root\n  User nobody", works: true},
	"negated host": {raw: "Host * !node\n" +
		"  Port 1\nHost node\n" +
		"  HostName 127.0.0.1\n" +
		"  Port PORT:plain;\n", works: true},
	"match host": {raw: "Match host node\n  HostName 127.0.0.1\n  Port PORT:plain;\n", works: true},
	"match original": {raw: "Match originalhost node user root\n  HostName 127.0.0.1\nMatch host 127.0.0.1\n" +
		"  Port PORT:plain;\n", works: true},
	"match exec": {raw: "Match exec \"test %n = node\"\n" +
		"  HostName 127.0.0.1\n" +
		"  Port PORT:plain;\n", works: true},
	"match not exec": {raw: "Match !exec \"test %n = node\"\n  HostName 127.0.0.1\n  Port PORT:plain;\n"},
	"match final": {raw: "Host node\n" +
		"  HostName 127.0.0.1\nMatch final host 127.0.0.1\n" +
		"  Port PORT:plain;\n", works: true},
	"match final all": {raw: "Host node\n" +
		"  HostName 127.0.0.1\nMatch final all\n" +
		"  Port PORT:plain;\n", works: true},
	"match canonical":  {raw: "Host node\n  HostName 127.0.0.1\nMatch canonical all\n  Port PORT:plain;\n"},
	"match all":        {raw: "Match all\n  HostName 127.0.0.1\n  Port PORT:plain;\n", works: true},
	"match bad":        {raw: "Match nonsense x\n  HostName 127.0.0.1\n  Port PORT:plain;\n"},
	"match localuser":  {raw: "Match localuser root\n  HostName 127.0.0.1\n  Port PORT:plain;\n", works: true},
	"match not host":   {raw: "Match !host other\n  HostName 127.0.0.1\n  Port PORT:plain;\n", works: true},
	"match host list":  {raw: "Match host other,no*\n  HostName 127.0.0.1\n  Port PORT:plain;\n", works: true},
	"hostname token":   {raw: "Host 1\n  HostName 127.0.0.%h\n  Port PORT:plain;\n", host: "1", works: true},
	"hostname bad key": {raw: "Host node\n  HostName 127.0.0.1%q\n  Port PORT:plain;\n"},
	"include": {raw: "Include HERE/*.inc\n",
		files: map[string]string{"a.inc": "Host node\n  HostName 127.0.0.1\n" +
			"  Port PORT:plain;\n"}, works: true},
	"include in a block": {raw: "Host node\n  Include HERE/a.inc\n  HostName 127.0.0.1\n",
		files: map[string]string{"a.inc": "Port PORT:plain;\n"}, works: true},
	"include elsewhere": {raw: "Host other\n" +
		"  Include HERE/a.inc\nHost node\n" +
		"  HostName 127.0.0.1\n" +
		"  Port PORT:plain;\n",
		files: map[string]string{"a.inc": "Host node\n  Port 1\n"}, works: true},
	"include of itself": {raw: "Include HERE/config\n"},

	"identity by env":      {config: "  IdentityFile ${MYKEY}", env: []string{"MYKEY=DIR/id"}, works: true},
	"identity by no env":   {config: "  IdentityFile ${NOSUCHKEY}"},
	"identity by tokens":   {config: "  IdentityFile DIR/i%%d\n  IdentityFile DIR/id", works: true},
	"identity unknown key": {config: "  IdentityFile DIR/%q"},
	"several identities":   {config: "  IdentityFile DIR/absent\n  IdentityFile DIR/other", works: true},
	"other identity":       {raw: "Host node\n  HostName 127.0.0.1\n  Port PORT:plain;\n  IdentityFile none\n"},
	"readable key":         {raw: keyAlone("open", "plain")},
	"locked key":           {raw: keyAlone("locked", "plain")},
	"wrong key":            {raw: keyAlone("other", "plain")},
	"rsa key":              {raw: keyAlone("rsa", "plain"), works: true},
	"rsa key too short": {config: "  RequiredRSASize 3072",
		raw: keyAlone("rsa", "plain") + "  RequiredRSASize 3072\n"},
	"key by agent": {raw: keyAlone("absent", "plain") + "  IdentityAgent AGENT:good\n", works: true},
	"agent by env": {raw: keyAlone("absent", "plain") + "  IdentityAgent $MYAGENT\n",
		env: []string{"MYAGENT=AGENT:good"}, works: true},
	"agent by braces": {raw: keyAlone("absent", "plain") + "  IdentityAgent ${MYAGENT}\n",
		env: []string{"MYAGENT=AGENT:good"}, works: true},
	"agent by default": {raw: keyAlone("absent", "plain") + "  IdentityAgent SSH_AUTH_SOCK\n",
		env: []string{"SSH_AUTH_SOCK=AGENT:good"}, works: true},
	"agent none": {raw: keyAlone("absent", "plain") + "  IdentityAgent none\n",
		env: []string{"SSH_AUTH_SOCK=AGENT:good"}},
	"agent gone": {raw: keyAlone("id", "plain") + "  IdentityAgent HERE/gone\n", works: true},
	"agent not named": {raw: keyAlone("absent", "plain") + "  IdentitiesOnly yes\n" +
		"  IdentityAgent AGENT:good\n"},
	"agent, another's file": {raw: keyAlone("other", "plain") + "  IdentityAgent AGENT:good\n", works: true},
	"certificate beside":    {server: "userca", raw: keyAlone("certid", "userca"), works: true},
	"certificate named": {server: "userca",
		raw: keyAlone("id", "userca") + "  CertificateFile DIR/certid-cert.pub\n", works: true},
	"certificate, no key": {server: "userca",
		raw: keyAlone("other", "userca") + "  CertificateFile DIR/certid-cert.pub\n"},
	"certificate by agent": {server: "userca", raw: keyAlone("absent", "userca") +
		"  CertificateFile DIR/certid-cert.pub\n  IdentityAgent AGENT:good\n", works: true},
	"certificate expired":   {server: "userca", raw: keyAlone("oldid", "userca")},
	"certificate of rsa":    {server: "userca", raw: keyAlone("certrsa", "userca"), works: true},
	"certificate elsewhere": {raw: keyAlone("certid", "plain"), works: true},
	"certificate left out": {server: "userca",
		raw: keyAlone("certid", "userca") + "  PubkeyAcceptedAlgorithms ssh-ed25519\n"},
	"no public keys":          {config: "  PubkeyAuthentication no"},
	"other methods":           {config: "  PreferredAuthentications password,keyboard-interactive"},
	"key types left out":      {config: "  PubkeyAcceptedAlgorithms -ssh-ed25519"},
	"no such user":            {config: "  User nosuchuser"},
	"connects from":           {server: "bound", config: "  BindAddress 127.0.0.9", works: true},
	"connects from elsewhere": {server: "bound"},
	"address family":          {config: "  AddressFamily inet6"},
	"address family 4":        {config: "  AddressFamily inet", works: true},
	"interface":               {config: "  BindInterface lo", works: true},
	"no interface":            {config: "  BindInterface nosuch0"},
	"timeout":                 {config: "  ConnectTimeout 5", works: true},
	"refused":                 {raw: "Host node\n  HostName 127.0.0.1\n  Port 1\n"},
	"numbers are no address":  {raw: "Host node\n  HostName 127.1\n  Port PORT:plain;\n", works: true},

	"no known key":         {known: "other KEY:host;\n"},
	"another key":          {known: "[127.0.0.1]:PORT:plain; KEY:host2;\n"},
	"key without the port": {known: "127.0.0.1 KEY:host;\n", works: true},
	"other without port":   {known: "127.0.0.1 KEY:host2;\n"},
	"cut line": {known: "gone.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\n" +
		"[127.0.0.1]:PORT:plain; KEY:host;\n", works: true},
	"dsa line": {known: "gone.example ssh-dss AAAAB3NzaC1kc3MAAACBAP\n" +
		"[127.0.0.1]:PORT:plain; KEY:host;\n", works: true},
	"ssh1 line":            {known: "old 1024 35 124567890123456789\n[127.0.0.1]:PORT:plain; KEY:host;\n", works: true},
	"lone marker":          {known: "@cert-authority\n[127.0.0.1]:PORT:plain; KEY:host;\n", works: true},
	"merge marker":         {known: "<<<<<<< HEAD\n[127.0.0.1]:PORT:plain; KEY:host;\n=======\n", works: true},
	"cut line of the host": {known: "[127.0.0.1]:PORT:plain; ssh-ed25519 AAAA\n"},
	"revoked":              {known: "[127.0.0.1]:PORT:plain; KEY:host;\n@revoked * KEY:host;\n"},
	"revoked first":        {known: "@revoked * KEY:host;\n[127.0.0.1]:PORT:plain; KEY:host;\n"},
	"pattern":              {known: "[127.0.0.*]:PORT:plain; KEY:host;\n", works: true},
	"negated pattern":      {known: "*,![127.0.0.1]:PORT:plain; KEY:host;\n", works: true},
	"windows line ends":    {known: "[127.0.0.1]:PORT:plain; KEY:host;\r\n", works: true},
	"no newline":           {known: "[127.0.0.1]:PORT:plain; KEY:host;", works: true},
	"alias":                {config: "  HostKeyAlias The-Node", known: "the-node KEY:host;\n", works: true},
	"alias has no port":    {config: "  HostKeyAlias the-node", known: "[the-node]:PORT:plain; KEY:host;\n"},
	"two files": {config: "  UserKnownHostsFile HERE/absent HERE/two",
		files: map[string]string{"two": "[127.0.0.1]:PORT:plain; KEY:host;\n"}, works: true},
	"global file": {config: "  UserKnownHostsFile none\n  GlobalKnownHostsFile HERE/two",
		files: map[string]string{"two": "[127.0.0.1]:PORT:plain; KEY:host;\n"}, works: true},
	"no file": {config: "  UserKnownHostsFile none"},
	"file by env": {config: "  UserKnownHostsFile ${KNOWN}",
		env: []string{"KNOWN=HERE/known"}, works: true},
	"known by another type": {server: "many", known: "[127.0.0.1]:PORT:many; KEY:hostec;\n", works: true},
	"shows another type":    {server: "rsa", known: "[127.0.0.1]:PORT:rsa; KEY:host;\n"},
	"strict no":             {config: "  StrictHostKeyChecking no", known: "other KEY:host;\n", works: true},
	"authority":             {server: "cert", known: "@cert-authority [127.0.0.1]:* KEY:ca;\n", works: true},
	"authority, other name": {server: "cert", config: "  HostKeyAlias gpu-b",
		known: "@cert-authority * KEY:ca;\n"},
	"authority, its name": {server: "cert", config: "  HostKeyAlias gpu-a.lab.test",
		known: "@cert-authority *.lab.test KEY:ca;\n", works: true},
	"another authority":  {server: "cert", known: "@cert-authority * KEY:other;\n"},
	"authority revoked":  {server: "cert", known: "@cert-authority * KEY:ca;\n@revoked * KEY:ca;\n"},
	"authority as a key": {server: "cert", known: "* KEY:ca;\n"},
	"authority or key": {server: "cert",
		known: "@cert-authority * KEY:other;\n[127.0.0.1]:PORT:cert; KEY:host;\n", works: true},
	"authority's algorithm": {server: "cert", config: "  CASignatureAlgorithms rsa-sha2-512",
		known: "@cert-authority * KEY:ca;\n"},
	"no certificates": {server: "cert", config: "  HostKeyAlgorithms ssh-ed25519",
		known: "@cert-authority * KEY:ca;\n"},

	"revoked file":       {config: "  RevokedHostKeys DIR/revoked"},
	"revoked file other": {config: "  RevokedHostKeys DIR/revokedother", works: true},
	"revoked file bad":   {config: "  RevokedHostKeys DIR/revokedbad"},
	"revoked file gone":  {config: "  RevokedHostKeys DIR/absent"},
	"revoked none":       {config: "  RevokedHostKeys none", works: true},
	"krl":                {config: "  RevokedHostKeys DIR/krl"},
	"krl of others":      {config: "  RevokedHostKeys DIR/krlother", works: true},
	"krl by id": {server: "cert", config: "  RevokedHostKeys DIR/krlid",
		known: "@cert-authority * KEY:ca;\n"},

	"hosts command": {config: "  KnownHostsCommand HERE/khc %H", known: "#\n",
		files: map[string]string{"khc": "#!/bin/sh\necho \"$1 KEY:host;\"\n"}, works: true},
	"hosts command other key": {config: "  KnownHostsCommand HERE/khc %H", known: "#\n",
		files: map[string]string{"khc": "#!/bin/sh\necho \"$1 KEY:host2;\"\n"}},
	"hosts command fails": {config: "  KnownHostsCommand HERE/khc",
		files: map[string]string{"khc": "#!/bin/sh\nexit 1\n"}},
	"hosts command relative": {config: "  KnownHostsCommand khc", works: true},
	"hosts command has no shell": {config: "  KnownHostsCommand HERE/khc a;b",
		files: map[string]string{"khc": "#!/bin/sh\n[ \"$1\" = 'a;b' ]\n"}, works: true},
	"hosts command echo back": {config: "  KnownHostsCommand HERE/khc %I %t %K %H", known: "#\n",
		files: map[string]string{"khc": "#!/bin/sh\n[ $1 = ORDER ] || echo \"$4 $2 $3\"\n"}, works: true},

	"proxy command": {raw: "Host node\n  ProxyCommand HERE/px PORT:plain;\n  HostKeyAlias n\n",
		known: "n KEY:host;\n",
		files: map[string]string{"px": relay}, works: true},
	"proxy command tokens": {config: "  ProxyCommand HERE/px %p",
		files: map[string]string{"px": relay}, works: true},
	"proxy command shell": {config: "  ProxyCommand HERE/px $(echo %p) 2>/dev/null",
		files: map[string]string{"px": relay}, works: true},
	"proxy command fails": {config: "  ProxyCommand exit 3"},
	"proxy command none":  {config: "  ProxyCommand none", works: true},
	"proxy jump none":     {config: "  ProxyJump none\n  ProxyCommand false", works: true},
	"proxy jump":          {raw: jump(""), known: knownOfTwo, works: true},
	"proxy jump list":     {raw: jump(",root@127.0.0.1:PORT:many;"), known: knownOfTwo, works: true},
	"proxy jump of a jump": {raw: jump("") + "\nHost jump\n  ProxyCommand HERE/px PORT:many;\n", known: knownOfTwo,
		files: map[string]string{"px": relay}, works: true},

	"sntrup only":    {server: "sntrup", works: true},
	"group18 only":   {server: "group18", works: true},
	"group exchange": {server: "gex", works: true},
	"umac only":      {server: "umac", works: true},
	"cbc only":       {server: "cbc"},
	"cbc allowed":    {server: "cbc", config: "  Ciphers +aes128-cbc", works: true},
	"old":            {server: "old"},
	"old allowed": {server: "old",
		config: "  KexAlgorithms +diffie-hellman-group14-sha1\n" +
			"  HostKeyAlgorithms +ssh-rsa\n" +
			"  PubkeyAcceptedAlgorithms +ssh-rsa", works: true},
	"old half allowed": {server: "old", config: "  KexAlgorithms +diffie-hellman-group14-sha1"},
	"kex removed":      {server: "gex", config: "  KexAlgorithms -diffie-hellman-group-exchange-*"},
	"kex first":        {config: "  KexAlgorithms ^ecdh-sha2-nistp256", works: true},
	"kex alone":        {config: "  KexAlgorithms curve25519-sha256@libssh.org", works: true},
	"macs alone":       {config: "  MACs hmac-sha2-256", works: true},
	"host types": {server: "many", config: "  HostKeyAlgorithms rsa-sha2-512",
		known: "[127.0.0.1]:PORT:many; KEY:hostrsa;\n", works: true},
	"host types, wrong":  {server: "many", config: "  HostKeyAlgorithms rsa-sha2-512"},
	"host rsa too short": {server: "rsa", config: "  RequiredRSASize 4096"},
	"fd pass": {config: "  ProxyUseFdpass yes\n  ProxyCommand HERE/px %p",
		files: map[string]string{"px": relay}},
}

// relay is a program that carries a connection to a port of this machine.
const relay = "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/$1\ncat <&3 & cat >&3\nkill $!\n"

const knownOfTwo = "[127.0.0.1]:PORT:plain; KEY:host;\n[127.0.0.1]:PORT:many; KEY:host;\n"

// keyAlone is an ssh_config with one identity in place of the usual one.
func keyAlone(key, server string) string {
	return "Host node\n  HostName 127.0.0.1\n  Port PORT:" + server + ";\n  IdentityFile DIR/" + key + "\n"
}

// jump is an ssh_config with a jump host.
func jump(more string) string {
	return "Host node\n  HostName 127.0.0.1\n  Port PORT:plain;\n  ProxyJump jump" + more + "\nHost jump\n" +
		"  HostName 127.0.0.1\n  Port PORT:many;\n"
}
