import { createKeyring, openKeyring, passkey, recovery } from 'express-did-auth-client/keyring'
import { DidAuthClientError, VaultClient, type VaultClientOptions } from 'express-did-auth-client/vault'
import { makeButton, waitForUser, onClick, onCopy, onSubmit } from './answer.js'
import { getElement, make, show } from './elements.js'

const LIST = 'notes'
/** Prefix of the recovery code's key in `sessionStorage`. The DID follows. */
const CODE = 'notes-code '

/** A change of the list. It fails if the list has changed since the last read. */
type Change = (vault: VaultClient, condition: { ifMatch?: string }) => Promise<string>

/**
 * Starts the step with the notes. The page encrypts them with the key of the user's keyring, which the vault stores.
 *
 * @param hasPasskey - whether the user's wallet is a passkey, which then also opens the keyring
 * @returns a function to call when the user changes. It clears the data of the previous user
 */
export function startVaultStep(vault: VaultClientOptions, hasPasskey: () => boolean): (previousDid?: string) => void {
  const codeInput = getElement('vault-code', HTMLTextAreaElement)
  let key: Uint8Array | undefined
  /** ETag of the shown list. Empty before the first read, when a note can be added to any list. */
  let condition: { ifMatch?: string } = {}

  async function change(work: Change, mayCreate = false): Promise<string> {
    if (key === undefined) {
      const keyring = await waitForUser(openOrCreateKeyring(new VaultClient(vault), mayCreate))
      key = keyring.key
      if (keyring.recoveryCode !== undefined) codeInput.value = keyring.recoveryCode
      show('vault-code-new', keyring.recoveryCode !== undefined)
      storeCode()
    }
    const notes = new VaultClient({ ...vault, encrypt: { key } })
    try {
      const result = await waitForUser(work(notes, condition))
      await read(notes)
      return result
    } catch (error) {
      if (findCode(error) !== 'CONFLICT') throw error
      await read(notes)
      throw new Error('Another device or tab has changed the notes. The list is now up to date. Try again.')
    }
  }

  /** Opens the user's keyring. If there is none and `mayCreate`, it creates one, with a recovery code. */
  async function openOrCreateKeyring(
    vault: VaultClient,
    mayCreate: boolean
  ): Promise<{ key: Uint8Array; recoveryCode?: string }> {
    const passkeys = hasPasskey() ? [passkey({ rpId: location.hostname })] : []
    const unlock = codeInput.value === '' ? (passkeys[0] ?? recovery('')) : recovery(codeInput.value)
    try {
      return await openKeyring({ vault, unlock })
    } catch (error) {
      if (findCode(error) === 'LOCKED') {
        show('recovery', true)
        codeInput.focus()
        throw new Error('Enter the recovery code of your notes. Then try again.')
      }
      if (findCode(error) !== 'KEYRING_MISSING' || !mayCreate) throw error
      return createKeyring({ vault, unlockers: passkeys })
    }
  }

  /** Shows the recovery code, and stores it for this tab and user, so that a reload restores it. */
  function storeCode(): void {
    show('recovery', codeInput.value !== '')
    sessionStorage.setItem(`${CODE}${vault.auth.session?.did ?? ''}`, codeInput.value)
  }

  async function read(vault: VaultClient): Promise<void> {
    // Read the list before the ids. If the ids are newer than the ETag, the vault refuses to change a wrong entry.
    const { contents, etag } = await waitForUser(vault.get(LIST))
    const entries = (await waitForUser(vault.keys())).find(({ key }) => key === LIST)?.entries ?? []
    condition = { ifMatch: etag }
    getElement('notes').replaceChildren(...contents.map((text, index) => makeItem(text, entries[index]?.id ?? '')))
    // The button that had the focus may have been removed with its note.
    if (document.activeElement === document.body) getElement('note').focus()
  }

  function makeItem(text: string, id: string): HTMLLIElement {
    const edit = makeButton('Edit', `Edit the note ${text}`, async () => {
      const area = make('textarea', { rows: '2', 'aria-label': 'The note' })
      area.value = text
      const replace: Change = async (vault, condition) => {
        await vault.replace(LIST, area.value, { id, ...condition })
        return 'Replaced.'
      }
      const save = makeButton('Save', 'Save the note', () => change(replace))
      item.className = 'editing'
      item.replaceChildren(area, make('span', { class: 'actions' }, save))
      area.focus()
    })
    const remove: Change = async (vault, condition) => {
      await vault.delete(LIST, { id, ...condition })
      return 'Deleted.'
    }
    const removal = makeButton('Delete', `Delete the note ${text}`, () => change(remove))
    const item = make('li', {}, make('p', {}, text), make('span', { class: 'actions' }, edit, removal))
    return item
  }

  codeInput.addEventListener('change', () => {
    key = undefined
    storeCode()
  })
  onCopy('copy-code', () => codeInput.value)
  onClick('read-notes', () => change(async () => 'Read and decrypted.'))
  onSubmit('note-form', () =>
    change(async (vault, condition) => {
      const note = getElement('note', HTMLTextAreaElement)
      await vault.add(LIST, note.value, condition)
      note.value = ''
      return 'Added. The vault has only the ciphertext.'
    }, true)
  )
  return (previousDid) => {
    if (previousDid !== undefined) sessionStorage.removeItem(CODE + previousDid)
    getElement('notes').replaceChildren()
    condition = {}
    key = undefined
    codeInput.value = sessionStorage.getItem(`${CODE}${vault.auth.session?.did ?? ''}`) ?? ''
    show('vault-code-new', false)
    show('recovery', codeInput.value !== '')
  }
}

const findCode = (error: unknown): string | undefined => (error instanceof DidAuthClientError ? error.code : undefined)
