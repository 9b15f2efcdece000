/** Browsers by their part of the header. Their order matters: the header of Edge also contains `Chrome/`. */
const BROWSERS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bMetaMaskMobile\b/, 'MetaMask'],
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\b(?:OPR|OPT|Opera)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Chrome|CriOS|HeadlessChrome)\//, 'Chrome'],
  [/\bSafari\//, 'Safari']
]

/** Devices and operating systems. A header of Android also has Linux, and one of an iPhone also has Mac OS X. */
const SYSTEMS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMacintosh\b/, 'Mac'],
  [/\bLinux\b/, 'Linux']
]

/** Maximum length of the part of a header that is read. */
const MAX_HEADER_LENGTH = 512

/**
 * Describes a browser by its `User-Agent` header, for a list of sessions: `Chrome on Windows`, `Safari on iPhone`. Any
 * other program has the name at the start of its header: `node`, `curl`. It contains no version.
 * @example
 * setupDidAuth(app, { …, describeSession: ({ headers }) => describeUserAgent(headers['user-agent']) })
 */
export function describeUserAgent(userAgent: string | undefined): string | undefined {
  const header = userAgent?.slice(0, MAX_HEADER_LENGTH) ?? ''
  const [browser, system] = [BROWSERS, SYSTEMS].map((list) => list.find(([pattern]) => pattern.test(header))?.[1])
  if (browser === undefined) return /^[\w.-]+/.exec(header)?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}
