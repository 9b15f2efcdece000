/** Reference of the public API: one page per entry of the library and the client, generated from the types' comments. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Application } from 'typedoc'
import { pagesDir, rootDir } from './paths.js'

/** Lists the entries of a package with their source files. */
function listEntries(folder) {
  const { name, exports } = JSON.parse(readFileSync(join(rootDir, folder, 'package.json'), 'utf8'))
  return Object.entries(exports)
    .filter(([, target]) => typeof target !== 'string')
    .map(([path, { types }]) => ({
      name: name + path.slice(1),
      // dist/client/index.d.ts of the client is src/client/index.ts.
      source: join(rootDir, types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts'))
    }))
}

/** Writes the pages of the API. @returns the name and the address of each */
export async function writeApi() {
  const entries = [...listEntries('.'), ...listEntries('src/client')]
  const app = await Application.bootstrapWithPlugins({
    entryPoints: entries.map(({ source }) => source),
    tsconfig: join(rootDir, '.site/tsconfig.json'),
    plugin: ['typedoc-plugin-markdown'],
    router: 'module',
    name: 'API',
    entryFileName: 'index.md',
    readme: 'none',
    disableSources: true,
    excludePrivate: true,
    excludeExternals: true,
    // `npm run types` reports errors of types.
    skipErrorChecking: true,
    logLevel: 'Error',
    useCodeBlocks: true,
    hideBreadcrumbs: true,
    hidePageHeader: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
    propertyMembersFormat: 'table',
    tableColumnSettings: { hideModifiers: true, hideDefaults: true, hideInherited: true, hideOverrides: true },
    pageTitleTemplates: { module: '{name}' },
    outputs: [{ name: 'markdown', path: join(pagesDir, 'api') }]
  })
  // TypeScript has lost the name of this union of codes.
  app.renderer.on('endPage', (page) => {
    page.contents = page.contents?.replaceAll(/(?:[\\| ]*`"ERR_\w+"`){10,}/g, ' `DidAuthErrorCode`')
  })
  const points = app.getEntryPoints() ?? []
  for (const point of points) {
    point.displayName = entries.find(({ source }) => source === point.sourceFile.fileName).name
  }
  const project = app.converter.convert(points)
  await app.generateOutputs(project)
  return entries.map(({ name }) => ({ text: name, address: `api/${name}.md` }))
}
