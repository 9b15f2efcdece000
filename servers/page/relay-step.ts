import { qrSvg } from 'express-did-auth-client/qr'
import type { RelayClient } from 'express-did-auth-client/relay'
import { waitForUser, onCopy, onSubmit } from './answer.js'
import { getElement, formatDate, fileBytes, show, formatSize, write } from './elements.js'

/** Maximum size of content, in bytes: encrypted and in base64url, it must fit into a relay file with its name. */
const MAX_BYTES = Math.max(0, Math.floor(Number(fileBytes) * 0.75) - 4_200)
const OPEN_PAGE = new URL('open', location.href).href

/** Starts the step that sends a text or a file. The page `open` opens links. */
export function startRelayStep(relay: RelayClient): void {
  write('send-limit', `At most ${formatSize(MAX_BYTES)}.`)
  show('sent-local', /^(?:localhost|127\.|\[::1)/.test(location.hostname))
  onCopy('copy-link', () => getElement('sent-link', HTMLAnchorElement).href)
  onSubmit('send-form', async () => {
    const text = getElement('send-text', HTMLTextAreaElement).value
    const input = getElement('send-file', HTMLInputElement)
    const [content = new File([text], '')] = input.files ?? []
    if (content.size > MAX_BYTES) {
      throw new Error(`This has ${formatSize(content.size)}. Send at most ${formatSize(MAX_BYTES)}.`)
    }
    let until = 0
    const onExpiresIn = (seconds: number): number => (until = Math.floor(Date.now() / 1_000) + seconds)
    const uri = await waitForUser(relay.send(content.name === '' ? text : content, { onExpiresIn }))
    input.value = ''
    const link = relay.link(uri, OPEN_PAGE) + (until > 0 ? `&until=${until}` : '')
    write('sent-until', until > 0 ? `The relay stores it until ${formatDate(until)}.` : '')
    getElement('sent-link', HTMLAnchorElement).href = write('sent-link', link)
    getElement('sent-code', HTMLImageElement).src = `data:image/svg+xml,${encodeURIComponent(qrSvg(link))}`
    show('sent', true)
    return 'Sent. The relay has only the ciphertext.'
  })
  onSubmit('open-form', async () => {
    const link = getElement('open-link', HTMLInputElement).value.trim()
    const pageLink = relay.link(link, OPEN_PAGE)
    location.assign(/^https?:/i.test(link) ? link : pageLink)
  })
}
