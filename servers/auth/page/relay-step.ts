import { qrSvg } from 'express-did-auth/client/qr'
import type { RelayClient } from 'express-did-auth/client/relay'
import { byId, onCopy, onSubmit } from './elements.js'
import type { ExchangeList } from './wire-view.js'

const STATUS = 'relay-status'

/** Send a text or a file, and open one. */
export class RelayStep {
  readonly #relay: () => RelayClient
  /** Of what is shown, for the garbage collector. */
  #url: string | undefined

  /** @param relay - the client with the wallet that the user chose */
  constructor(relay: () => RelayClient, exchanges: ExchangeList) {
    this.#relay = relay
    onSubmit('send-form', STATUS, async () => {
      exchanges.begin('Encrypt and send')
      await this.#send()
      return 'Sent. The relay has the ciphertext only.'
    })
    onSubmit('open-form', STATUS, async () => {
      exchanges.begin('Open and decrypt')
      await this.#open(byId('open-link', HTMLInputElement).value.trim())
      return 'Opened. The content has the hash that the link names.'
    })
    onCopy('copy-link', STATUS, () => byId('sent-link', HTMLAnchorElement).href)
  }

  /** A link to this page: `/open#r=<cid>.<key>`. */
  readLink(link: string): boolean {
    const isLink = /#r=[^.]+\./.test(link)
    if (isLink) byId('open-link', HTMLInputElement).value = link
    return isLink
  }

  async #send(): Promise<void> {
    const [file] = byId('send-file', HTMLInputElement).files ?? []
    const content =
      file === undefined ? byId('send-text', HTMLTextAreaElement).value : new Uint8Array(await file.arrayBuffer())
    const relay = this.#relay()
    let until = ''
    const onExpiresIn = (seconds: number): void => {
      until = `The relay keeps it until ${new Date(Date.now() + seconds * 1_000).toLocaleString()}.`
    }
    const link = relay.link(await relay.send(content, { onExpiresIn }), new URL('open', location.href).href)
    byId('sent-until', HTMLElement).textContent = until
    const anchor = byId('sent-link', HTMLAnchorElement)
    anchor.href = anchor.textContent = link
    byId('sent-code', HTMLImageElement).src = `data:image/svg+xml,${encodeURIComponent(qrSvg(link))}`
    byId('sent', HTMLElement).hidden = false
  }

  async #open(link: string): Promise<void> {
    const content = await this.#relay().open(link)
    const isText = typeof content === 'string'
    const text = byId('opened-text', HTMLElement)
    text.textContent = isText ? content : ''
    text.hidden = !isText
    if (this.#url !== undefined) URL.revokeObjectURL(this.#url)
    this.#url = URL.createObjectURL(new Blob([isText ? content : Uint8Array.from(content)]))
    const anchor = byId('opened-file', HTMLAnchorElement)
    anchor.href = this.#url
    anchor.hidden = isText
    anchor.textContent = isText ? '' : `Save the file (${content.length.toLocaleString()} bytes)`
    byId('opened', HTMLElement).hidden = false
  }
}
