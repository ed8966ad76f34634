// The languages that the console offers to its users, and where it keeps the one of the browser's user.
import { FormSelect, FormSelectOption } from '@patternfly/react-core';
import { useTranslation } from 'react-i18next';

/** As in the console's user preferences. */
const offered: Record<string, string> = { en: 'English', es: 'Español', fr: 'Français', ko: '한국어', ja: '日本語', zh: '中文 (简体中文)' };
const KEY = 'bridge/last-language';

export const lastLanguage = (): string => localStorage.getItem(KEY) ?? navigator.language;

/** The console's setting: it takes effect at once, and stays. */
export function Languages() {
  const { i18n } = useTranslation();
  const set = (language: string) => {
    localStorage.setItem(KEY, language);
    void i18n.changeLanguage(language);
  };
  return (
    <div style={{ marginInlineStart: 'auto' }}>
      <FormSelect aria-label="Language" data-test="language" value={i18n.resolvedLanguage} onChange={(_, language) => set(language)}>
        {Object.entries(offered).map(([code, name]) => (
          <FormSelectOption key={code} value={code} label={name} />
        ))}
      </FormSelect>
    </div>
  );
}
