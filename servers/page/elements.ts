const { dataset } = document.documentElement
/** Settings that the auth server writes into the page. The URL of relay or vault is empty if it is not running. */
export const { auth: serviceUrl = '', relay: relayUrl = '', vault: vaultUrl = '', fileBytes, openReads } = dataset
export const usesCookies = dataset.mode === 'cookie'
export const show = (id: string, isShown: boolean): boolean => (getElement(id).hidden = !isShown)
export const write = (id: string, text: string): string => (getElement(id).textContent = text)

// Browsers provide encryption only on https. The page shows a notice in the steps that encrypt.
document.documentElement.toggleAttribute('data-insecure', !isSecureContext)

if (URL.canParse(serviceUrl) && new URL(serviceUrl).origin !== location.origin) {
  getElement('own-url', HTMLAnchorElement).href = new URL(location.pathname + location.hash, serviceUrl).href
  write('own-url', serviceUrl)
  show('elsewhere', true)
}

/** Returns an element of the page. @throws Error if the page has no such element */
export function getElement<T extends HTMLElement = HTMLElement>(id: string, type?: abstract new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`The page has no #${id}`)
  // T is HTMLElement without a type.
  return element as T
}

/** Enables or disables the buttons that need a wallet or a session. The style sheet also uses the attribute. */
export function allow(need: 'wallet' | 'session', isMet: boolean): void {
  document.documentElement.toggleAttribute(`data-${need}`, isMet)
  const buttons = document.querySelectorAll<HTMLButtonElement>(`button[data-needs=${need}]`)
  for (const button of buttons) button.disabled = !isMet
}

/** Formats a time in seconds since the Unix epoch for users. */
export const formatDate = (seconds: number): string =>
  new Date(seconds * 1_000).toLocaleString([], { dateStyle: 'long', timeStyle: 'short' })

/** Formats a number of bytes for users. */
export const formatSize = (bytes: number): string =>
  bytes < 2 ** 20 ? `${Math.ceil(bytes / 2 ** 10)} KiB` : `${(Math.floor((bytes / 2 ** 20) * 10) / 10).toFixed(1)} MiB`

/** Creates an element from texts and other elements. Texts are never parsed as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}
